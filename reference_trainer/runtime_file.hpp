// A file in which this process leaves word for lockstep while it runs. It is gone when the process
// is: at the end of its owner's life, on SIGTERM, SIGINT and SIGHUP, and, after a SIGKILL, when a
// trainer starts a day later.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

class RuntimeFile {
 public:
  // runtime_folder()/<name>-<pid><ending>. Makes the folder, not the file. The path is empty where
  // the folder is not ours. Another folder is one that somebody made for us, and is theirs to look
  // after.
  RuntimeFile(const std::string& name, const std::string& ending,
              const std::filesystem::path& other_folder = {});
  ~RuntimeFile();
  RuntimeFile(const RuntimeFile&) = delete;
  RuntimeFile& operator=(const RuntimeFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace lockstep
