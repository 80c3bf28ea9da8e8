#include "recording/writer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recording/reader.hpp"
#include "support/sample_recording.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using testing::content_of;
using testing::one_of_each;
using testing::TemporaryFolder;
using testing::two_gpu_machine;

TEST(RecordingWriter, NeverOverwritesAFileThatIsNoRecording) {
  const TemporaryFolder folder;
  const auto script = folder.write("train.py", "print('mine')\n");

  const auto writer = RecordingWriter::create(script, two_gpu_machine());

  ASSERT_FALSE(writer);
  EXPECT_THAT(writer.error().what, ::testing::HasSubstr("is not a recording"));
  EXPECT_EQ(content_of(script), "print('mine')\n");
}

TEST(RecordingWriter, KeepsAnEarlierRecordingBesideTheNewOne) {
  const TemporaryFolder folder;
  const std::string earlier = testing::recording_text(two_gpu_machine(), one_of_each());
  const auto path = folder.write("run.jsonl", earlier);

  ASSERT_TRUE(RecordingWriter::create(path, two_gpu_machine()));

  EXPECT_EQ(content_of(path.string() + ".old"), earlier);
  EXPECT_EQ(content_of(path), header_line(two_gpu_machine()));
}

TEST(RecordingWriter, KeepsMachinesAndJobsApartWhenItHidesTheirNames) {
  Machine machine = two_gpu_machine();
  machine.gpus[0].host = "secret1";
  machine.gpus[1].host = "secret2";
  machine.gpus[0].job = machine.gpus[1].job = "secret1 127.0.0.1:29500";

  const std::string line = header_line(machine, {Redaction::commands_and_host});

  EXPECT_THAT(line, ::testing::Not(::testing::HasSubstr("secret")));
  auto reader = RecordingReader::over(line, "here");
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->machine().gpus[0].host, "host1");
  EXPECT_EQ(reader->machine().gpus[1].host, "host2");
  EXPECT_EQ(reader->machine().gpus[0].job, reader->machine().gpus[1].job);
}

TEST(RecordingWriter, TakesAnEmptyFileThatMktempMade) {
  const TemporaryFolder folder;

  EXPECT_TRUE(RecordingWriter::create(folder.write("empty", ""), two_gpu_machine()));
}

TEST(RecordingWriter, WhatWasFlushedSurvivesACrash) {
  const TemporaryFolder folder;
  auto writer = RecordingWriter::create(folder / "run.jsonl", two_gpu_machine());
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->write(one_of_each()[0]));
  ASSERT_TRUE(writer->flush());

  // while the writer still holds the file
  auto reader = RecordingReader::open(folder / "run.jsonl");

  ASSERT_TRUE(reader);
  EXPECT_TRUE(reader->next());
}

TEST(RecordingWriter, AFolderThatIsNotThereIsAnErrorWithANextStep) {
  const auto writer = RecordingWriter::create("/no/such/folder/run.jsonl", two_gpu_machine());

  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().kind, ErrorKind::usage);
  EXPECT_FALSE(writer.error().next.empty());
}

}  // namespace
}  // namespace lockstep
