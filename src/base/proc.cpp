#include "base/proc.hpp"

#include <dirent.h>

#include <string>
#include <system_error>

#include "base/file.hpp"
#include "base/text.hpp"

namespace lockstep {

void for_each_number_in(const std::filesystem::path& folder,
                        const std::function<void(int)>& visit) {
  DIR* const open = ::opendir(folder.c_str());
  if (open == nullptr) return;
  while (const dirent* entry = ::readdir(open))
    if (const auto number = parse_integer(entry->d_name);
        number && *number > 0 && *number <= 0x7FFFFFFF)
      visit(static_cast<int>(*number));
  ::closedir(open);
}

std::vector<std::string_view> stat_fields_after_name(std::string_view stat) {
  const auto open = stat.find('(');
  const auto close = stat.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return {};
  return split(trim(stat.substr(close + 1)), ' ');
}

bool in_own_pid_namespace(const std::filesystem::path& proc) {
  // The inode of the first PID namespace, fixed in the kernel (PROC_PID_INIT_INO).
  constexpr std::string_view kInitialPidNamespace = "pid:[4026531836]";
  std::error_code unknown;
  const auto name = std::filesystem::read_symlink(proc / "self/ns/pid", unknown);
  return !unknown && name != kInitialPidNamespace;
}

std::optional<int> parent_of(int pid) {
  const std::string stat =
      read_small_file("/proc/" + std::to_string(pid) + "/stat", 1024).value_or("");
  const auto fields = stat_fields_after_name(stat);
  const auto parent = fields.size() > 1 ? parse_integer(fields[1]) : std::nullopt;
  return parent && *parent > 0 ? std::optional(static_cast<int>(*parent)) : std::nullopt;
}

bool is_or_stands_below(int pid, int ancestor) {
  constexpr int kDeepest = 64;  // a tree that changes while it is climbed must not hold us
  std::optional<int> at = pid;
  for (int depth = 0; at && depth < kDeepest; ++depth) {
    if (*at == ancestor) return true;
    at = parent_of(*at);
  }
  return false;
}

}  // namespace lockstep
