#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recording/reader.hpp"
#include "recording/writer.hpp"
#include "support/sample_recording.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using testing::all_records;
using testing::content_of;
using ::testing::HasSubstr;
using testing::one_of_each;
using testing::recording_text;
using testing::TemporaryFolder;
using testing::two_gpu_machine;

TEST(CutRecording, ReadsUpToTheLastWholeLineWhereverItIsCut) {
  const std::string header = recording_text(two_gpu_machine(), {});
  const std::vector<Record> records = one_of_each();
  const std::string whole = recording_text(two_gpu_machine(), records);

  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    const std::string text = whole.substr(0, cut);
    auto reader = RecordingReader::over(text, "cut");
    if (cut + 1 < header.size()) {
      EXPECT_FALSE(reader) << "a header cut at byte " << cut << " is no header";
      continue;
    }
    ASSERT_TRUE(reader) << "cut at byte " << cut;
    const std::vector<Record> read = all_records(*reader);
    // A last line whose newline alone is missing is whole.
    const auto newlines = static_cast<std::size_t>(std::ranges::count(text, '\n'));
    const bool only_newline_missing =
        cut < whole.size() && whole[cut] == '\n' && text.back() != '\n';
    const std::size_t expected =
        std::max<std::size_t>(newlines, 1) - 1 + (only_newline_missing && newlines > 0 ? 1U : 0U);
    ASSERT_EQ(read.size(), expected) << "cut at byte " << cut;
    for (std::size_t i = 0; i < read.size(); ++i) EXPECT_EQ(read[i], records[i]);
    const std::size_t after_last_newline =
        text.size() - (text.rfind('\n') == std::string::npos ? text.size() : text.rfind('\n') + 1);
    EXPECT_EQ(reader->losses().cut_bytes, only_newline_missing ? 0 : after_last_newline)
        << "cut at byte " << cut;
  }
}

TEST(CutRecording, CompressedReadsWhatWasFlushedWhereverItIsCut) {
  const TemporaryFolder folder;
  std::size_t flushed_size = 0;
  {
    auto writer = RecordingWriter::create(folder / "run.zst", two_gpu_machine());
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->write(one_of_each()[0]));
    ASSERT_TRUE(writer->flush());
    flushed_size = content_of(folder / "run.zst").size();
    for (const Record& record : one_of_each()) ASSERT_TRUE(writer->write(record));
    ASSERT_TRUE(writer->close());
  }
  const std::string whole = content_of(folder / "run.zst");

  for (std::size_t cut = flushed_size; cut < whole.size(); ++cut) {
    auto reader = RecordingReader::over(whole.substr(0, cut), "cut");
    ASSERT_TRUE(reader) << "cut at byte " << cut << " of " << whole.size();
    const auto records = all_records(*reader);
    ASSERT_GE(records.size(), 1U) << "cut at byte " << cut;
    EXPECT_EQ(records[0], one_of_each()[0]);
  }
  auto last = RecordingReader::over(whole.substr(0, flushed_size), "cut");
  ASSERT_TRUE(last);
  all_records(*last);
  EXPECT_TRUE(last->losses().damaged_compression) << "a frame without its end is said to be cut";
}

TEST(DamagedRecording, CountsUnreadableLinesAndGoesOn) {
  const std::string text = recording_text(two_gpu_machine(), {one_of_each()[0]}) +
                           "garbage\n{\"t_ms\":1,\"gpus\":[{\"index\":0]}\n\n" +
                           record_line(one_of_each()[3]);
  auto reader = RecordingReader::over(text, "damaged");
  ASSERT_TRUE(reader);

  EXPECT_EQ(all_records(*reader).size(), 2U);
  EXPECT_EQ(reader->losses().unreadable_lines, 2U);
  EXPECT_THAT(describe(reader->losses()), HasSubstr("2 lines could not be read"));
}

TEST(DamagedRecording, LinesOfKindsYetUnknownAreNoDamage) {
  auto reader = RecordingReader::over(
      recording_text(two_gpu_machine(), {}) + "{\"t_ms\":1,\"weather\":{\"rain\":true}}\n", "new");
  ASSERT_TRUE(reader);

  EXPECT_TRUE(all_records(*reader).empty());
  EXPECT_FALSE(reader->losses().any());
}

TEST(DamagedRecording, AbsurdValuesBecomeErrorsOrAreKeptAsRead) {
  auto reader = RecordingReader::over(
      recording_text(two_gpu_machine(), {}) +
          R"({"t_ms":1,"gpus":[{"index":0,"busy":"N/A","memory_used_bytes":-5,"power_mw":1e400,"sm":4.0,"limits":7,"power_samples_mw":[1,null,3],"power_sample_ms":20},{"index":-1},{"index":99999999},{"busy":1}]})"
          "\n",
      "absurd");
  ASSERT_TRUE(reader);
  const auto record = reader->next();
  ASSERT_TRUE(record);
  const GpuTick tick = std::get<GpuTick>(record->content);

  ASSERT_EQ(tick.size(), 1U) << "entries without a sane index are no GPUs";
  EXPECT_EQ(tick[0].busy.state(), ReadingState::error);
  EXPECT_EQ(tick[0].memory_used_bytes.state(), ReadingState::error);
  EXPECT_EQ(tick[0].power_mw.state(), ReadingState::error);
  EXPECT_EQ(tick[0].sm.value(), 4.0) << "judged later, not here";
  EXPECT_EQ(tick[0].limits.state(), ReadingState::error);
  EXPECT_EQ(tick[0].power_samples.state(), ReadingState::error)
      << "a hole would shift every later sample";
}

TEST(RecordingHeader, OfANewerVersionIsRefusedWithTheWayOut) {
  const auto reader =
      RecordingReader::over("{\"lockstep_recording\":2,\"gpus\":[]}\n", "future.jsonl");

  ASSERT_FALSE(reader);
  EXPECT_THAT(reader.error().what, HasSubstr("version 2"));
  EXPECT_THAT(reader.error().next, HasSubstr("update lockstep"));
}

TEST(RecordingHeader, EmptyAndForeignFilesAreNamedAsSuch) {
  EXPECT_THAT(RecordingReader::over("", "e").error().what, HasSubstr("e is empty"));
  EXPECT_THAT(RecordingReader::over("index, name\n", "x").error().what,
              HasSubstr("not a recording"));
  EXPECT_THAT(RecordingReader::over("{}\n", "x").error().what, HasSubstr("not a recording"));
  EXPECT_THAT(RecordingReader::over("[1,2]\n", "x").error().what, HasSubstr("not a recording"));
}

TEST(DamagedRecording, AnEndlessLineIsGivenUpOn) {
  std::string text = recording_text(two_gpu_machine(), {one_of_each()[0]});
  text += std::string(17U << 20U, 'x') + "\n" + record_line(one_of_each()[3]);
  auto reader = RecordingReader::over(std::move(text), "long");
  ASSERT_TRUE(reader);

  EXPECT_EQ(all_records(*reader).size(), 2U);
  EXPECT_EQ(reader->losses().unreadable_lines, 1U);
}

}  // namespace
}  // namespace lockstep
