#include "sources/wandb/wandb_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <protozero/pbf_reader.hpp>
#include <set>

#include "base/redact.hpp"
#include "base/text.hpp"
#include "sources/parsed/cells.hpp"
#include "sources/wandb/wandb_metrics.hpp"

namespace lockstep {
namespace {

constexpr std::string_view kMagic = ":W&B";
constexpr std::size_t kHeader = 7;
constexpr std::size_t kRecordBlock = 32768;
constexpr std::size_t kRecordHeader = 7;  // checksum 4, length 2, type 1
constexpr std::size_t kLongestRecord = 64U << 20U;

enum : int { kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

// Field numbers of W&B's wandb_internal.proto.
namespace field {
constexpr protozero::pbf_tag_type kConfig = 5;
constexpr protozero::pbf_tag_type kStats = 7;
constexpr protozero::pbf_tag_type kRun = 17;
constexpr protozero::pbf_tag_type kEnvironment = 26;
}  // namespace field

// The logical records; `cut` counts bytes that belong to none.
struct LogicalRecords {
  std::vector<std::string> all;
  std::size_t cut = 0;
};
LogicalRecords logical_records(std::string_view bytes) {
  LogicalRecords records;
  std::string pieces;
  bool in_pieces = false;
  for (std::size_t at = kHeader; at + kRecordHeader <= bytes.size();) {
    const std::size_t left_in_block = kRecordBlock - at % kRecordBlock;
    if (left_in_block < kRecordHeader) {  // the trailer of a block
      at += left_in_block;
      continue;
    }
    const auto byte = [&](std::size_t offset) {
      return static_cast<unsigned char>(bytes[at + offset]);
    };
    const std::size_t length = byte(4) | static_cast<std::size_t>(byte(5)) << 8U;
    const int type = byte(6);
    if (type == 0 && length == 0) {  // padding to the end of the block
      at += left_in_block;
      continue;
    }
    // damaged: go on with the next block
    if (type < kFull || type > kLast || length > left_in_block - kRecordHeader) {
      records.cut += left_in_block;
      at += left_in_block;
      in_pieces = false;
      continue;
    }
    if (at + kRecordHeader + length > bytes.size()) break;
    const std::string_view piece = bytes.substr(at + kRecordHeader, length);
    at += kRecordHeader + length;
    if (type == kFull) {
      records.all.emplace_back(piece);
      in_pieces = false;
    } else if (type == kFirst) {
      pieces.assign(piece);
      in_pieces = true;
    } else if (in_pieces && pieces.size() + piece.size() <= kLongestRecord) {
      pieces.append(piece);
      if (type == kLast) {
        records.all.push_back(pieces);
        in_pieces = false;
      }
    }
  }
  return records;
}

std::string_view view(protozero::data_view data) { return {data.data(), data.size()}; }

std::optional<double> timestamp(protozero::data_view data) {
  protozero::pbf_reader message(data);
  double seconds = 0;
  while (message.next()) {
    if (message.tag() == 1 && message.wire_type() == protozero::pbf_wire_type::varint)
      seconds += static_cast<double>(message.get_int64());
    else if (message.tag() == 2 && message.wire_type() == protozero::pbf_wire_type::varint)
      seconds += static_cast<double>(message.get_int32()) / 1e9;
    else
      message.skip();
  }
  return seconds > 0 ? std::optional(seconds) : std::nullopt;
}

// Key and JSON value of a StatsItem or ConfigItem.
std::pair<std::string, std::string> item_of(protozero::data_view data) {
  protozero::pbf_reader message(data);
  std::pair<std::string, std::string> item;
  while (message.next()) {
    const bool is_text = message.wire_type() == protozero::pbf_wire_type::length_delimited;
    if (message.tag() == 1 && is_text)
      item.first = std::string(view(message.get_view()));
    else if (message.tag() == 2 && is_text && item.first.empty())
      item.first = std::string(view(message.get_view()));
    else if (message.tag() == 16 && is_text)
      item.second = std::string(view(message.get_view()));
    else
      message.skip();
  }
  return item;
}

WandbMetrics metrics_of(protozero::data_view data) {
  protozero::pbf_reader message(data);
  WandbMetrics metrics;
  while (message.next()) {
    const bool is_message = message.wire_type() == protozero::pbf_wire_type::length_delimited;
    if (message.tag() == 2 && is_message) {
      metrics.time_s = timestamp(message.get_view());
    } else if (message.tag() == 3 && is_message) {
      const auto [key, value] = item_of(message.get_view());
      if (const auto cell = parse_cell(value)) metrics.values[key] = cell->value;
    } else {
      message.skip();
    }
  }
  return metrics;
}

// What else a run file tells: who ran, on what, with which settings.
struct RunFacts {
  std::string program;
  std::vector<std::string> arguments;
  std::string gpu_type;
  std::map<std::string, std::string> settings;
};

void read_environment(protozero::data_view data, RunFacts& facts) {
  protozero::pbf_reader message(data);
  while (message.next()) {
    const bool is_text = message.wire_type() == protozero::pbf_wire_type::length_delimited;
    if (message.tag() == 5 && is_text)
      facts.arguments.emplace_back(view(message.get_view()));
    else if (message.tag() == 6 && is_text)
      facts.program = std::string(view(message.get_view()));
    else if (message.tag() == 18 && is_text)
      facts.gpu_type = std::string(view(message.get_view()));
    else
      message.skip();
  }
}

// The settings that findings know; everything else in a config is the user's own business.
constexpr std::array<std::string_view, 8> kSettings = {"logging_steps",
                                                       "dataloader_num_workers",
                                                       "num_workers",
                                                       "per_device_train_batch_size",
                                                       "gradient_accumulation_steps",
                                                       "bf16",
                                                       "fp16",
                                                       "tf32"};

void read_config(protozero::data_view data, RunFacts& facts) {
  protozero::pbf_reader message(data);
  while (message.next()) {
    if (message.tag() != 1 || message.wire_type() != protozero::pbf_wire_type::length_delimited) {
      message.skip();
      continue;
    }
    const auto [key, value] = item_of(message.get_view());
    if (std::ranges::find(kSettings, key) != kSettings.end() && value.size() < 24)
      facts.settings[key] = value;
  }
}

void read_run(protozero::data_view data, RunFacts& facts) {
  protozero::pbf_reader message(data);
  while (message.next()) {
    if (message.tag() == 4 && message.wire_type() == protozero::pbf_wire_type::length_delimited)
      read_config(message.get_view(), facts);
    else
      message.skip();
  }
}

}  // namespace

bool looks_like_wandb(std::string_view start) { return start.starts_with(kMagic); }

std::optional<ParsedLog> parse_wandb_file(std::string_view bytes) {
  if (!looks_like_wandb(bytes)) return std::nullopt;
  const LogicalRecords records = logical_records(bytes);
  LogBuilder builder(SourceKind::wandb, ProcessCoverage::partial);
  RunFacts facts;
  std::set<int> held;
  std::size_t unreadable = 0;
  for (const std::string& record : records.all) {
    try {  // protozero throws on damaged messages; one of them is no reason to lose the rest
      protozero::pbf_reader message(record);
      while (message.next()) {
        if (message.wire_type() != protozero::pbf_wire_type::length_delimited)
          message.skip();
        else if (message.tag() == field::kStats)
          add_wandb_metrics(metrics_of(message.get_view()), builder, held);
        else if (message.tag() == field::kEnvironment)
          read_environment(message.get_view(), facts);
        else if (message.tag() == field::kRun)
          read_run(message.get_view(), facts);
        else if (message.tag() == field::kConfig)
          read_config(message.get_view(), facts);
        else
          message.skip();
      }
    } catch (const protozero::exception&) {
      ++unreadable;
    }
  }
  auto log = builder.build();
  if (!log) return std::nullopt;
  for (GpuInfo& gpu : log->machine.gpus)
    if (!facts.gpu_type.empty()) gpu.name = facts.gpu_type;
  if (!held.empty()) {
    ProcessSample process;
    process.pid = 1;  // not in the file
    for (const int gpu : held) process.gpus.push_back({gpu, std::nullopt});
    if (!facts.program.empty()) {
      std::vector<std::string> command = {"python", facts.program};
      command.insert(command.end(), facts.arguments.begin(), facts.arguments.end());
      process.command = redact_command(std::move(command));
    }
    log->records.insert(log->records.begin(),
                        Record{log->records.front().t_ms, ProcessTick{process}});
  } else {
    log->machine.process_coverage = ProcessCoverage::none;
  }
  for (const auto& [key, value] : facts.settings)
    log->records.insert(
        log->records.begin(),
        Record{log->records.front().t_ms, Event{"setting", std::nullopt, key + "=" + value}});
  if (records.cut > 0)
    log->notes.push_back(fmt::format("{} bytes were damaged; the rest was read", records.cut));
  if (unreadable > 0) log->notes.push_back(fmt::format("{} records could not be read", unreadable));
  return log;
}

}  // namespace lockstep
