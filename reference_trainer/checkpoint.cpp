#include "reference_trainer/checkpoint.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "base/text.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kLongestHeader = 64U << 20U;
constexpr const char* kPrefix = "step-";
constexpr const char* kEnding = ".safetensors";

// The types that training has, by safetensors' names.
struct TypeName {
  at::ScalarType type;
  const char* name;
};
constexpr TypeName kTypes[] = {{at::kFloat, "F32"},     {at::kDouble, "F64"}, {at::kHalf, "F16"},
                               {at::kBFloat16, "BF16"}, {at::kLong, "I64"},   {at::kInt, "I32"},
                               {at::kByte, "U8"}};

const char* name_of(at::ScalarType type) {
  for (const TypeName& known : kTypes)
    if (known.type == type) return known.name;
  return nullptr;
}

// Notices a changed byte; 8 bytes at a time, so that gigabytes take no while.
class Checksum {
 public:
  void add(const void* data, std::size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (; size >= 8; bytes += 8, size -= 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes, 8);
      mix(word);
    }
    std::uint64_t rest = size + 1;
    for (; size > 0; --size) rest = rest << 8U | *bytes++;
    mix(rest);
  }
  std::string text() const { return fmt::format("{:016x}", value_); }

 private:
  void mix(std::uint64_t word) {
    value_ = (value_ ^ word) * 0x9E3779B97F4A7C15ULL;
    value_ ^= value_ >> 29U;
  }
  std::uint64_t value_ = 0x6C6F636B73746570ULL;
};

Error refused(const fs::path& file, const std::string& why) {
  return {fmt::format("checkpoint {} is refused: {}", printable(file.string()), why),
          "give another one with --resume FILE, or start anew with --resume never"};
}

// A file that is gone unless it is kept.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& path)
      : path_(path.string()),
        file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {}
  ~TemporaryFile() {
    if (file_ >= 0) ::close(file_);
    if (!kept_) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  bool write(const void* data, std::size_t size) {
    const auto* bytes = static_cast<const char*>(data);
    while (size > 0 && file_ >= 0) {
      const ssize_t done = ::write(file_, bytes, std::min<std::size_t>(size, 1U << 30U));
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) return false;
      bytes += done;
      size -= static_cast<std::size_t>(done);
    }
    return file_ >= 0;
  }
  bool keep_as(const fs::path& path) {
    if (::fsync(file_) != 0 || ::rename(path_.c_str(), path.c_str()) != 0) return false;
    kept_ = true;
    const int folder = ::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return false;
    const bool flushed = ::fsync(folder) == 0;  // else the new name may be lost with the power
    ::close(folder);
    return flushed;
  }

 private:
  const std::string path_;
  const int file_;
  bool kept_ = false;
};

}  // namespace

Status write_checkpoint(const fs::path& file, const Checkpoint& checkpoint) {
  std::error_code problem;
  fs::create_directories(file.parent_path(), problem);
  nlohmann::ordered_json header;
  header["__metadata__"] = checkpoint.words;
  header["__metadata__"]["format"] = "lockstep-train 1";
  Checksum checksum;
  std::uint64_t offset = 0;
  std::vector<Tensor> contiguous;
  for (const NamedTensor& tensor : checkpoint.tensors) {
    contiguous.push_back(tensor.value.detach().cpu().contiguous());
    const Tensor& value = contiguous.back();
    header[tensor.name] = {{"dtype", name_of(value.scalar_type())},
                           {"shape", value.sizes().vec()},
                           {"data_offsets", {offset, offset + value.nbytes()}}};
    offset += value.nbytes();
    checksum.add(value.data_ptr(), value.nbytes());
  }
  header["__metadata__"]["checksum"] = checksum.text();
  std::string text = header.dump();
  // the numbers begin at a multiple of 8, as the format wants it
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();

  TemporaryFile out(file.string() + ".partial");
  bool written = out.write(&length, sizeof length) && out.write(text.data(), text.size());
  for (const Tensor& value : contiguous)
    written = written && out.write(value.data_ptr(), value.nbytes());
  if (!written || !out.keep_as(file))
    return Error{fmt::format("checkpoint {} could not be written: {}", printable(file.string()),
                             std::strerror(errno)),
                 "free some space, or give another --checkpoint-dir"};
  return Done{};
}

Result<Checkpoint> read_checkpoint(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return cannot_read(file, errno);
  std::error_code problem;
  const std::uint64_t size = fs::file_size(file, problem);
  std::uint64_t length = 0;
  in.read(reinterpret_cast<char*>(&length), sizeof length);
  if (problem || !in || length > kLongestHeader || length + sizeof length > size)
    return refused(file, "it is no safetensors file, or cut short");
  std::string text(length, '\0');
  in.read(text.data(), static_cast<std::streamsize>(length));
  const auto header = nlohmann::json::parse(text, nullptr, false);
  if (!in || header.is_discarded() || !header.is_object())
    return refused(file, "its header is damaged");
  const auto words = header.find("__metadata__");
  if (words == header.end() || !words->is_object() || !words->contains("format") ||
      words->at("format") != "lockstep-train 1")
    return refused(file,
                   "it holds weights, but not of lockstep-train: the optimizer's state and the "
                   "position in the data are missing");

  Checkpoint checkpoint;
  const std::uint64_t data = length + sizeof length;
  std::vector<std::pair<std::uint64_t, NamedTensor>> by_place;
  try {
    checkpoint.words = words->get<std::map<std::string, std::string>>();
    for (const auto& [name, facts] : header.items()) {
      if (name == "__metadata__") continue;
      const auto shape = facts.at("shape").get<std::vector<std::int64_t>>();
      const auto from = facts.at("data_offsets").at(0).get<std::uint64_t>();
      const auto to = facts.at("data_offsets").at(1).get<std::uint64_t>();
      if (to < from || to > size - data)
        return refused(file, fmt::format("it is cut short: {} bytes are missing",
                                         to > size - data ? to - (size - data) : 0));
      const auto type =
          std::find_if(std::begin(kTypes), std::end(kTypes),
                       [&](const TypeName& known) { return facts.at("dtype") == known.name; });
      std::uint64_t wanted = type != std::end(kTypes) ? at::elementSize(type->type) : 0;
      // no product may pass what the file holds, so none wraps
      for (const std::int64_t length_of : shape)
        wanted = length_of >= 0 &&
                         (length_of == 0 || wanted <= size / static_cast<std::uint64_t>(length_of))
                     ? wanted * static_cast<std::uint64_t>(length_of)
                     : size + 1;
      if (type == std::end(kTypes) || wanted != to - from)
        return refused(file,
                       fmt::format("the sizes of '{}' contradict each other", printable(name)));
      Tensor value = at::empty(shape, type->type);
      in.seekg(static_cast<std::streamoff>(data + from));
      in.read(static_cast<char*>(value.data_ptr()), static_cast<std::streamsize>(to - from));
      if (!in) return refused(file, "it is cut short");
      by_place.push_back({from, {name, value}});
    }
  } catch (const nlohmann::json::exception&) {
    return refused(file, "its header is damaged");
  }
  std::ranges::stable_sort(by_place,
                           [](const auto& a, const auto& b) { return a.first < b.first; });
  Checksum checksum;
  for (auto& [place, tensor] : by_place) {
    checksum.add(tensor.value.data_ptr(), tensor.value.nbytes());
    checkpoint.tensors.push_back(std::move(tensor));
  }
  if (checkpoint.words["checksum"] != checksum.text())
    return refused(file, "its checksum does not fit: some bytes have changed");
  return checkpoint;
}

std::vector<fs::path> checkpoints_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder, missing)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && name.ends_with(kEnding)) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

fs::path checkpoint_path(const fs::path& folder, std::int64_t step) {
  return folder / fmt::format("{}{:09}{}", kPrefix, step, kEnding);
}

void set_aside_later_ones(const fs::path& folder, std::int64_t update) {
  std::error_code ignored;
  for (const fs::path& file : checkpoints_in(folder))
    if (file > checkpoint_path(folder, update)) fs::rename(file, file.string() + ".aside", ignored);
}

Result<std::optional<ResumePoint>> find_resume_point(const std::string& resume,
                                                     const fs::path& folder, int attempt) {
  using Found = std::optional<ResumePoint>;
  // what is there now, this run wrote
  const bool goes_on = attempt > 0 && !checkpoints_in(folder).empty();
  if (resume == "never" && !goes_on) return Found{};
  const bool automatic = resume == "auto" || goes_on;
  const std::vector<fs::path> files =
      checkpoints_in(automatic ? folder : fs::path(resume).parent_path());
  if (automatic && (folder.empty() || files.empty())) return Found{};
  const fs::path wanted = automatic ? files.back() : fs::path(resume);
  auto content = read_checkpoint(wanted);
  if (content) return Found(ResumePoint{wanted, std::move(*content), ""});
  for (auto place = std::ranges::lower_bound(files, wanted); place != files.begin();) {
    auto before = read_checkpoint(*--place);
    if (!before) continue;
    if (attempt == 0)
      return Error{content.error().what, fmt::format("the one before is offered: --resume {}",
                                                     shell_quoted(place->string()))};
    return Found(ResumePoint{*place, std::move(*before),
                             fmt::format("{}; taking the one before. ", content.error().what)});
  }
  return Error{content.error().what, "there is none before it: start anew with --resume never"};
}

Status CheckpointWriter::try_folder(const fs::path& folder) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  const std::string file = (folder / ".lockstep-try").string();
  const int opened = problem ? -1 : ::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (opened < 0)
    return usage_error(fmt::format("--checkpoint-dir {}: {}", printable(folder.string()),
                                   problem ? problem.message() : std::strerror(errno)),
                       "give a folder that can be written to");
  ::close(opened);
  ::unlink(file.c_str());
  return Done{};
}

CheckpointWriter::~CheckpointWriter() {
  if (under_way_.valid()) under_way_.wait();
}

Status CheckpointWriter::save(std::int64_t step, Checkpoint checkpoint) {
  Status before = finish();
  for (NamedTensor& tensor : checkpoint.tensors)
    tensor.value = tensor.value.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
  under_way_ =
      std::async(std::launch::async, [this, step, checkpoint = std::move(checkpoint)]() -> Status {
        ::pthread_setname_np(::pthread_self(), "checkpoint");
        const fs::path newest = checkpoint_path(folder_, step);
        if (Status written = write_checkpoint(newest, checkpoint); !written) return written;
        if (keep_ > 0) remove_before(newest);
        return Done{};
      });
  return before;
}

// The oldest go, the one just written never.
void CheckpointWriter::remove_before(const fs::path& newest) const {
  std::vector<fs::path> files = checkpoints_in(folder_);
  std::erase_if(files, [&](const fs::path& file) { return file >= newest; });
  std::error_code ignored;
  while (files.size() + 1 > static_cast<std::size_t>(keep_)) {
    fs::remove(files.front(), ignored);
    files.erase(files.begin());
  }
}

Status CheckpointWriter::finish() { return under_way_.valid() ? under_way_.get() : Status(Done{}); }

}  // namespace lockstep
