#include "reference_trainer/data/dataset.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "base/file.hpp"
#include "base/text.hpp"
#include "reference_trainer/failure.hpp"

namespace lockstep {
namespace {

// A file's bytes, mapped: the system reads what is asked for and shares it among ranks.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0)
      throw TrainFailure(
          usage_error(fmt::format("--data {}: {}", printable(path), std::strerror(errno)),
                      "give a text file, a token file, or --data synthetic"));
    struct stat facts{};
    if (::fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode)) {
      ::close(file);
      throw TrainFailure(usage_error(fmt::format("{} is not a file", printable(path)),
                                     "give a text file, a token file, or --data synthetic"));
    }
    size_ = static_cast<std::size_t>(facts.st_size);
    if (size_ > 0)
      bytes_ =
          static_cast<const std::uint8_t*>(::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file, 0));
    ::close(file);
    if (bytes_ == MAP_FAILED)
      throw TrainFailure(fmt::format("{} cannot be mapped into memory", printable(path)),
                         "copy it to a local disk");
  }
  ~MappedFile() {
    if (size_ > 0) ::munmap(const_cast<std::uint8_t*>(bytes_), size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  const std::uint8_t* bytes() const { return bytes_; }
  std::size_t size() const { return size_; }

 private:
  const std::uint8_t* bytes_ = nullptr;
  std::size_t size_ = 0;
};

// A long row of tokens, cut into samples of `length` that overlap by one: the target of a token is
// the next one.
class TokenFile : public Dataset {
 public:
  TokenFile(const std::string& path, std::string format, const ModelShape& shape)
      : path_(path), file_(path), length_(shape.sequence_length), vocabulary_(shape.vocabulary) {
    if (format == "auto") format = looks_like_text() ? "text" : "tokens";
    if (format == "tokens") {
      token_bytes_ = 2;
      first_byte_ = header_bytes();
    }
    tokens_ = static_cast<std::int64_t>((file_.size() - first_byte_) / token_bytes_);
    if ((file_.size() - first_byte_) % token_bytes_ != 0)
      throw TrainFailure(usage_error(
          fmt::format("{} is no row of 16-bit tokens: half of one is left over", printable(path)),
          "is it text? --data-format text; else it was cut short"));
    if (promised_ && *promised_ != tokens_)
      throw TrainFailure(usage_error(
          fmt::format("{} promises {} tokens and holds {}", printable(path), *promised_, tokens_),
          "it was cut short; make it again"));
    if (tokens_ < length_ + 1)
      throw TrainFailure(usage_error(fmt::format("{} holds {} tokens, fewer than one sample of {}",
                                                 printable(path), tokens_, length_ + 1),
                                     "give a larger file or a smaller --sequence-length"));
    if (token_bytes_ == 1 && vocabulary_ < 256)
      throw TrainFailure(
          usage_error(fmt::format("text needs 256 tokens, the model knows {}", vocabulary_),
                      "leave --vocabulary out"));
    look_at_tokens();
  }

  std::int64_t size() const override { return (tokens_ - 1) / length_; }

  Batch batch_of(const std::vector<std::int64_t>& samples) const override {
    const auto count = static_cast<std::int64_t>(samples.size());
    Batch batch{at::empty({count, length_}, at::kLong), at::empty({count, length_}, at::kLong)};
    auto* inputs = batch.inputs.data_ptr<std::int64_t>();
    auto* targets = batch.targets.data_ptr<std::int64_t>();
    for (const std::int64_t sample : samples) {
      const std::int64_t first = sample * length_;
      for (std::int64_t i = 0; i < length_; ++i) {
        *inputs++ = token(first + i);
        *targets++ = token(first + i + 1);
      }
    }
    return batch;
  }

  std::string description() const override {
    return fmt::format("{}: {} {}, {} samples of {}", printable(path_), tokens_,
                       token_bytes_ == 1 ? "bytes of text" : "tokens", size(), length_);
  }

 private:
  bool looks_like_text() const {
    const std::size_t looked_at = std::min<std::size_t>(file_.size(), 65536);
    // 16-bit tokens below 256 have a 0 byte
    return file_.size() == 0 || std::memchr(file_.bytes(), 0, looked_at) == nullptr;
  }
  // A token that the model does not know should not end a run after hours: all of a small file, a
  // million of a large one.
  void look_at_tokens() const {
    if (token_bytes_ == 1) return;
    constexpr std::int64_t kAll = 64 << 20;
    const std::int64_t stride = tokens_ <= kAll ? 1 : tokens_ / (1 << 20);
    for (std::int64_t place = 0; place < tokens_; place += stride) token(place);
  }
  // llm.c's files begin with 256 numbers: 20240520, a version, the count. nanoGPT's begin with the
  // tokens.
  std::size_t header_bytes() {
    std::int32_t head[3] = {};
    if (file_.size() < 1024) return 0;
    std::memcpy(head, file_.bytes(), sizeof head);
    if (head[0] == 20240801)
      throw TrainFailure(usage_error(
          fmt::format("{} holds 32-bit tokens (llm.c's for Llama 3); 16-bit ones are known",
                      printable(path_)),
          "write it with GPT-2's tokens"));
    if (head[0] != 20240520) return 0;
    if (head[1] != 1)
      throw TrainFailure(usage_error(
          fmt::format("{} is a token file of version {}; 1 is known", printable(path_), head[1]),
          "write it with 16-bit GPT-2 tokens"));
    promised_ = head[2];
    return 1024;
  }
  std::int64_t token(std::int64_t place) const {
    const std::size_t at = first_byte_ + static_cast<std::size_t>(place) * token_bytes_;
    const std::int64_t value =
        token_bytes_ == 1 ? file_.bytes()[at] : file_.bytes()[at] | file_.bytes()[at + 1] << 8;
    if (value >= vocabulary_)
      throw TrainFailure(
          usage_error(fmt::format("{}: token {} is {}, the model knows {}", printable(path_), place,
                                  value, vocabulary_),
                      "give --vocabulary 50304 for GPT-2's tokens, or --data-format text"));
    return value;
  }

  const std::string path_;
  const MappedFile file_;
  const std::int64_t length_;
  const std::int64_t vocabulary_;
  std::size_t token_bytes_ = 1;
  std::size_t first_byte_ = 0;
  std::int64_t tokens_ = 0;
  std::optional<std::int64_t> promised_;  // by the file itself
};

// The same numbers for the same seed and sample, in any order, on any rank.
std::mt19937_64 generator_of(std::int64_t seed, std::int64_t sample) {
  return std::mt19937_64(static_cast<std::uint64_t>(seed) * 0x9E3779B97F4A7C15ULL +
                         static_cast<std::uint64_t>(sample) + 1);
}

// Tokens with something to learn: each follows from the one before by a fixed rule, one in eight is
// chance.
class SyntheticTokens : public Dataset {
 public:
  SyntheticTokens(std::int64_t size, std::int64_t seed, const ModelShape& shape)
      : size_(size), seed_(seed), length_(shape.sequence_length), vocabulary_(shape.vocabulary) {}
  std::int64_t size() const override { return size_; }

  Batch batch_of(const std::vector<std::int64_t>& samples) const override {
    const auto count = static_cast<std::int64_t>(samples.size());
    Batch batch{at::empty({count, length_}, at::kLong), at::empty({count, length_}, at::kLong)};
    auto* inputs = batch.inputs.data_ptr<std::int64_t>();
    auto* targets = batch.targets.data_ptr<std::int64_t>();
    const auto vocabulary = static_cast<std::uint64_t>(vocabulary_);
    for (const std::int64_t sample : samples) {
      std::mt19937_64 random = generator_of(seed_, sample);
      std::uint64_t token = random() % vocabulary;
      for (std::int64_t i = 0; i < length_; ++i) {
        *inputs++ = static_cast<std::int64_t>(token);
        const std::uint64_t chance = random();
        token = chance % 8 == 0 ? (chance >> 8) % vocabulary : (token * 5 + 17) % vocabulary;
        *targets++ = static_cast<std::int64_t>(token);
      }
    }
    return batch;
  }
  std::string description() const override {
    return fmt::format("synthetic: {} samples of {} tokens", size_, length_);
  }

 private:
  const std::int64_t size_;
  const std::int64_t seed_;
  const std::int64_t length_;
  const std::int64_t vocabulary_;
};

// Rows of numbers between -1 and 1; the target is their mean.
class RandomRows : public Dataset {
 public:
  RandomRows(std::int64_t size, std::int64_t seed, const ModelShape& shape)
      : size_(size), seed_(seed), columns_(shape.vocabulary) {}
  std::int64_t size() const override { return size_; }

  Batch batch_of(const std::vector<std::int64_t>& samples) const override {
    const auto count = static_cast<std::int64_t>(samples.size());
    Batch batch{at::empty({count, columns_}), at::empty({count})};
    auto* inputs = batch.inputs.data_ptr<float>();
    auto* targets = batch.targets.data_ptr<float>();
    for (const std::int64_t sample : samples) {
      std::mt19937_64 random = generator_of(seed_, sample);
      double sum = 0;
      for (std::int64_t i = 0; i < columns_; ++i) {
        const double value =
            static_cast<double>(random() >> 11) / static_cast<double>(1ULL << 52) - 1;
        *inputs++ = static_cast<float>(value);
        sum += value;
      }
      *targets++ = static_cast<float>(sum / static_cast<double>(columns_));
    }
    return batch;
  }
  std::string description() const override {
    return fmt::format("random rows: {} of {} numbers", size_, columns_);
  }

 private:
  const std::int64_t size_;
  const std::int64_t seed_;
  const std::int64_t columns_;
};

}  // namespace

std::unique_ptr<Dataset> open_dataset(const TrainSettings& settings, const ModelShape& shape) {
  if (shape.kind == ModelKind::mlp) {
    if (settings.data != "synthetic")
      throw TrainFailure(usage_error("--model mlp learns random rows, not a file",
                                     "leave --data out, or choose --model tiny"));
    return std::make_unique<RandomRows>(settings.dataset_size, settings.seed, shape);
  }
  if (settings.data == "synthetic")
    return std::make_unique<SyntheticTokens>(settings.dataset_size, settings.seed, shape);
  return std::make_unique<TokenFile>(settings.data, settings.data_format, shape);
}

}  // namespace lockstep
