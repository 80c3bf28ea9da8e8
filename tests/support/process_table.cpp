#include "support/process_table.hpp"

#include <filesystem>
#include <sstream>

#include "base/file.hpp"

namespace lockstep::testing {
namespace {

template <class Visit>
void for_each_process(const Visit& visit) {
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", gone)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") == std::string::npos)
      visit(std::stoi(name), entry.path());
  }
}

// Empty where the process is gone, before or while it is read.
std::string text_of(const std::filesystem::path& file) {
  return read_small_file(file).value_or("");
}

// State and parent; an empty state: it is gone.
struct Standing {
  std::string state;
  int parent = 0;
};
Standing standing_of(const std::filesystem::path& folder) {
  const std::string stat = text_of(folder / "stat");
  Standing standing;
  if (const auto end = stat.rfind(')'); end != std::string::npos)
    std::istringstream(stat.substr(end + 1)) >> standing.state >> standing.parent;
  return standing;
}

}  // namespace

std::vector<int> processes_with(const std::string& entry) {
  std::vector<int> found;
  for_each_process([&](int pid, const std::filesystem::path& folder) {
    const std::string environment = '\0' + text_of(folder / "environ");
    const Standing standing = standing_of(folder);
    if (environment.find('\0' + entry + '\0') != std::string::npos && !standing.state.empty() &&
        standing.state != "Z")
      found.push_back(pid);
  });
  return found;
}

std::vector<int> living_children_of(int parent) {
  std::vector<int> found;
  for_each_process([&](int pid, const std::filesystem::path& folder) {
    const Standing standing = standing_of(folder);
    if (standing.parent == parent && standing.state != "Z") found.push_back(pid);
  });
  return found;
}

}  // namespace lockstep::testing
