// The least of /proc that several layers read: numbered folders, and the fields of a stat file.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace lockstep {

// Calls `visit` with every entry whose name is a number: processes in /proc, threads in a task
// folder.
void for_each_number_in(const std::filesystem::path& folder, const std::function<void(int)>& visit);

// The fields of "42 (name) S 1 …" from the state on. The name may hold blanks and brackets, so it
// ends at the last bracket. Empty when the text is no stat file.
std::vector<std::string_view> stat_fields_after_name(std::string_view stat);

// Whether `proc` is seen from a PID namespace other than the machine's first: from inside a
// container. False when it cannot be told.
bool in_own_pid_namespace(const std::filesystem::path& proc);

// Who started a process of this machine.
std::optional<int> parent_of(int pid);

// Whether a process of this machine is `ancestor` or stands below it.
bool is_or_stands_below(int pid, int ancestor);

}  // namespace lockstep
