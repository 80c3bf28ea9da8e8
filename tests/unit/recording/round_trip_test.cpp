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
