#include "support/canned_proc.hpp"

#include <sstream>

namespace lockstep::testing {

CannedProc::CannedProc() {
  folder_.write("etc/passwd",
                "root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n");
  std::filesystem::create_directories(root() / "proc/self/ns");
  std::filesystem::create_symlink("pid:[4026531836]", root() / "proc/self/ns/pid");
}

void CannedProc::enter_container() const {
  std::filesystem::remove(root() / "proc/self/ns/pid");
  std::filesystem::create_symlink("pid:[4026532999]", root() / "proc/self/ns/pid");
}

void CannedProc::put(const CannedProcess& process) const {
  const std::string folder = "proc/" + std::to_string(process.pid) + "/";
  const auto with_zeros = [](const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += word + '\0';
    return text;
  };
  std::ostringstream stat;
  stat << process.pid << " (" << process.name << ") " << process.state << ' ' << process.parent
       << " 1 1 0 -1 0 0 0 0 0 " << process.cpu_ticks << " 0 0 0 20 0 1 0 " << process.start_ticks
       << " 0 0\n";
  folder_.write(folder + "stat", stat.str());
  folder_.write(folder + "cmdline", with_zeros(process.command));
  std::string status =
      "Name:\t" + process.name + "\nUid:\t" + std::to_string(process.user_id) + "\t1\t1\t1\nNSpid:";
  for (const int pid :
       process.namespace_pids.empty() ? std::vector<int>{process.pid} : process.namespace_pids)
    status += "\t" + std::to_string(pid);
  folder_.write(folder + "status", status + "\n");
  folder_.write(folder + "maps", process.maps);
  if (process.environment_readable) {
    folder_.write(folder + "environ", with_zeros(process.environment));
    folder_.write(folder + "io",
                  "rchar: 1\nwchar: 1\nread_bytes: " + std::to_string(process.read_bytes) +
                      "\nwrite_bytes: " + std::to_string(process.write_bytes) + "\n");
  }
  std::filesystem::create_directories(root() / folder / "fd");
  for (std::size_t i = 0; i < process.open_files.size(); ++i) {
    const auto link = root() / folder / "fd" / std::to_string(i);
    std::filesystem::remove(link);
    std::filesystem::create_symlink(process.open_files[i], link);
  }
}

void CannedProc::remove(int pid) const {
  std::filesystem::remove_all(root() / "proc" / std::to_string(pid));
}

}  // namespace lockstep::testing
