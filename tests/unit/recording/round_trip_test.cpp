#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recording/reader.hpp"
#include "recording/writer.hpp"
#include "support/sample_recording.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using testing::all_records;
using testing::one_of_each;
using testing::recording_text;
using testing::TemporaryFolder;
using testing::two_gpu_machine;

TEST(Recording, ReadsBackEverythingThatWasWritten) {
  auto reader = RecordingReader::over(recording_text(two_gpu_machine(), one_of_each()), "test");

  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->machine(), two_gpu_machine());
  EXPECT_EQ(all_records(*reader), one_of_each());
  EXPECT_FALSE(reader->losses().any());
}

StepMark step_in_pieces() {
  const auto item = std::make_shared<const CodePlace>(CodePlace{"train.py", 31, "Tensor.item", 12});
  const auto write = std::make_shared<const CodePlace>(CodePlace{"", 0, "write to steps.log", 0});
  auto detail = std::make_shared<StepDetail>();
  StepPiece piece;
  piece.part = StepPart::sync;
  piece.place = item;
  piece.from_ms = 6.25;
  piece.length_ms = 2.5;
  piece.own_ms = 2.25;
  piece.hidden_ms = 0.5;
  piece.count = 148;
  piece.bytes = 4;
  piece.subject = 18446744073709551615U;
  piece.on_device = piece.pageable = piece.blocking = true;
  detail->pieces = {piece};
  detail->rests = {{0, 6.25, nullptr, item, {{StepPart::logging, write, 1.5}}}};
  detail->looks = {{3.5, 10, write}};
  StepMark step;
  step.rank = 1;
  step.index = 7;
  step.duration_ms = 8.75;
  step.beside_cupti = true;
  step.detail = std::move(detail);
  return step;
}

TEST(Recording, KeepsThePiecesOfAStepAndTheirLines) {
  const std::string text =
      recording_text(two_gpu_machine(), {{1, step_in_pieces()}, {2, step_in_pieces()}});
  auto reader = RecordingReader::over(text, "test");
  const std::vector<Record> records = all_records(*reader);
  ASSERT_EQ(records.size(), 2U);

  const StepMark mark = step_in_pieces();
  EXPECT_TRUE(std::get<StepMark>(records[0].content).beside_cupti);
  const StepDetail& read = *std::get<StepMark>(records[0].content).detail;
  ASSERT_EQ(read.pieces.size(), 1U);
  const StepPiece& piece = read.pieces.front();
  const StepPiece& as_written = mark.detail->pieces.front();
  EXPECT_EQ(*piece.place, *as_written.place);
  EXPECT_EQ(piece.part, as_written.part);
  EXPECT_EQ(piece.from_ms, as_written.from_ms);
  EXPECT_EQ(piece.length_ms, as_written.length_ms);
  EXPECT_EQ(piece.own_ms, as_written.own_ms);
  EXPECT_EQ(piece.hidden_ms, as_written.hidden_ms);
  EXPECT_EQ(piece.count, as_written.count);
  EXPECT_EQ(piece.bytes, as_written.bytes);
  EXPECT_EQ(piece.subject, as_written.subject);
  EXPECT_TRUE(piece.on_device && piece.pageable && piece.blocking);
  ASSERT_EQ(read.rests.size(), 1U);
  EXPECT_EQ(read.rests[0].after, nullptr);
  EXPECT_EQ(read.rests[0].before, piece.place) << "the same line is the same place";
  ASSERT_EQ(read.rests[0].calls.size(), 1U);
  EXPECT_EQ(read.rests[0].calls[0].place->what, "write to steps.log");
  ASSERT_EQ(read.looks.size(), 1U);
  EXPECT_EQ(read.looks[0].weight_ms, 10);
  EXPECT_EQ(std::get<StepMark>(records[1].content).detail->pieces[0].place, piece.place);
}

TEST(Recording, WithoutNamesHasNoLinesOfCode) {
  const std::string line =
      record_line({1, step_in_pieces()}, WriterOptions{Redaction::commands_and_host});

  EXPECT_EQ(line.find("train.py"), std::string::npos) << line;
}

TEST(Recording, PiecesWithoutAPlaceAreLeftOut) {
  const std::string header = header_line(two_gpu_machine(), {});
  auto reader = RecordingReader::over(
      header +
          R"({"t_ms":1,"step":{"rank":0,"index":1,"duration_ms":5,"detail":{"places":[{"line":3}],)"
          R"("pieces":[{"part":"sync","place":0},{"part":"sync","place":9},{"part":"sync"},7],)"
          R"("looks":[{"at_ms":1,"place":-1}],"rests":[{"after":4}]}}})"
          "\n",
      "test");
  const std::vector<Record> records = all_records(*reader);

  ASSERT_EQ(records.size(), 1U);
  const StepDetail& read = *std::get<StepMark>(records[0].content).detail;
  EXPECT_EQ(read.pieces.size(), 1U);
  EXPECT_TRUE(read.looks.empty());
  EXPECT_EQ(read.rests.at(0).after, nullptr);
}

class RecordingFile : public ::testing::TestWithParam<const char*> {};

TEST_P(RecordingFile, ReadsBackWhateverItsName) {
  const TemporaryFolder folder;
  const auto path = folder / GetParam();
  {
    auto writer = RecordingWriter::create(path, two_gpu_machine());
    ASSERT_TRUE(writer);
    for (const Record& record : one_of_each()) ASSERT_TRUE(writer->write(record));
    ASSERT_TRUE(writer->close());
  }

  std::filesystem::rename(path, folder / "any name");  // known by content

  ASSERT_TRUE(looks_like_recording(folder / "any name"));
  auto reader = RecordingReader::open(folder / "any name");
  ASSERT_TRUE(reader);
  EXPECT_EQ(all_records(*reader), one_of_each());
  EXPECT_FALSE(reader->losses().any());
}
INSTANTIATE_TEST_SUITE_P(PlainAndCompressed, RecordingFile,
                         ::testing::Values("run.jsonl", "run.jsonl.zst"));

TEST(Recording, IsKnownWhereverItsHeaderNamesTheFormat) {
  std::string gpus;
  for (int index = 0; index < 64; ++index)
    gpus += (index > 0 ? "," : "") + std::string("{\"index\":") + std::to_string(index) + "}";
  auto sorted = LineStream::over("{\"gpus\":[" + gpus + "],\"lockstep_recording\":1}\n");
  auto another = LineStream::over("{\"gpus\":[" + gpus + "]}\n");

  EXPECT_TRUE(looks_like_recording(sorted)) << "a tool may sort the keys";
  EXPECT_FALSE(looks_like_recording(another));
}

TEST(Recording, TellsNullFromAbsent) {
  auto reader = RecordingReader::over(recording_text(two_gpu_machine(), {}) +
                                          R"({"t_ms":1,"gpus":[{"index":0,"busy":null}]})" + "\n",
                                      "test");
  ASSERT_TRUE(reader);

  const auto tick = std::get<GpuTick>(reader->next()->content);

  EXPECT_EQ(tick[0].busy.state(), ReadingState::not_supported) << "null: asked and not available";
  EXPECT_EQ(tick[0].power_mw.state(), ReadingState::not_asked) << "absent: not asked at this tick";
}

TEST(Recording, ReadsWhatOtherToolsWrite) {
  // Keys in another order, sizes as floats, integers for fractions, unknown keys, CRLF.
  const std::string header =
      R"({"gpus":[{"name":null,"index":3,"uuid":null}],"started_unix_ns":1,"host":"h","driver":null,"new_key":{"a":[1]},"lockstep_recording":1})";
  const std::string line =
      R"({"gpus":[{"memory_used_bytes":1.5e10,"busy":1,"index":3,"extra":{"x":null},"temperature_c":41.13}],"t_ms":5})";
  auto reader = RecordingReader::over(header + "\r\n" + line + "\r\n", "test");
  ASSERT_TRUE(reader);

  const auto record = reader->next();

  ASSERT_TRUE(record);
  const GpuSample gpu = std::get<GpuTick>(record->content).at(0);
  EXPECT_EQ(reader->machine().gpus.at(0).index, 3);
  EXPECT_EQ(gpu.memory_used_bytes.value(), 15'000'000'000U);
  EXPECT_EQ(gpu.busy.value(), 1.0);
  EXPECT_EQ(gpu.temperature_c.value(), 41.13);
  EXPECT_FALSE(reader->losses().any());
}

TEST(Recording, StaleReadingsAreNotWrittenAgain) {
  GpuSample gpu;
  gpu.busy = Reading<double>(0.5).as_stale();

  EXPECT_EQ(record_line({0, GpuTick{gpu}}), "{\"t_ms\":0,\"gpus\":[{\"index\":0}]}\n");
}

TEST(Recording, RedactedHoldsNeitherCommandsNorHostNames) {
  const WriterOptions redact{Redaction::commands_and_host};
  std::string text = header_line(two_gpu_machine(), redact);
  for (const Record& record : one_of_each()) text += record_line(record, redact);

  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("node1")));
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("train.py")));
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("ada")));
  EXPECT_THAT(text, ::testing::HasSubstr("\"RANK\":\"0\"")) << "ranks are needed for the diagnosis";
}

}  // namespace
}  // namespace lockstep
