#include "reference_trainer/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

Checkpoint some_checkpoint(double value = 1) {
  Checkpoint checkpoint;
  checkpoint.words = {{"update", "7"}};
  checkpoint.tensors = {{"weight", at::full({3, 5}, value)},
                        {"step", at::full({}, 2.0)},
                        {"random", at::arange(11, at::kByte)},
                        {"half", at::ones({4}, at::kBFloat16)}};
  return checkpoint;
}

TEST(Checkpoint, IsReadBackAsItWasWritten) {
  const testing::TemporaryFolder folder;
  const Checkpoint written = some_checkpoint(0.1);

  ASSERT_TRUE(write_checkpoint(folder / "a.safetensors", written));
  const auto read = read_checkpoint(folder / "a.safetensors");

  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(read->words.at("update"), "7");
  ASSERT_EQ(read->tensors.size(), written.tensors.size());
  for (std::size_t i = 0; i < written.tensors.size(); ++i) {
    EXPECT_EQ(read->tensors[i].name, written.tensors[i].name);
    EXPECT_TRUE(at::equal(read->tensors[i].value, written.tensors[i].value))
        << written.tensors[i].name;
  }
}

TEST(Checkpoint, IsRefusedCutAtAnyByte) {
  const testing::TemporaryFolder folder;
  ASSERT_TRUE(write_checkpoint(folder / "whole.safetensors", some_checkpoint()));
  const std::string whole = testing::content_of(folder / "whole.safetensors");

  for (std::size_t length = 0; length < whole.size(); ++length) {
    const auto read = read_checkpoint(folder.write("cut.safetensors", whole.substr(0, length)));
    ASSERT_FALSE(read) << length << " of " << whole.size();
    EXPECT_FALSE(read.error().next.empty());
  }
}

TEST(Checkpoint, IsRefusedWithAnyByteChanged) {
  const testing::TemporaryFolder folder;
  ASSERT_TRUE(write_checkpoint(folder / "whole.safetensors", some_checkpoint()));
  const std::string whole = testing::content_of(folder / "whole.safetensors");

  int accepted = 0;
  for (std::size_t place = 0; place < whole.size(); ++place) {
    std::string changed = whole;
    changed[place] = static_cast<char>(changed[place] ^ 0x10);
    accepted += static_cast<bool>(read_checkpoint(folder.write("changed.safetensors", changed)));
  }

  // Names and words of the header stand outside the checksum: a name that changed is noticed when
  // it is looked for.
  const std::string numbers = whole.substr(8 + static_cast<unsigned char>(whole[0]) +
                                           256U * static_cast<unsigned char>(whole[1]));
  EXPECT_LT(accepted, static_cast<int>(whole.size() - numbers.size()));
  std::string last = whole;
  last.back() = static_cast<char>(last.back() ^ 1);
  EXPECT_FALSE(read_checkpoint(folder.write("last.safetensors", last)));
}

TEST(Checkpoint, OfSomebodyElseIsRefusedInWords) {
  const testing::TemporaryFolder folder;
  const std::string header = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  std::string foreign(8, '\0');
  foreign[0] = static_cast<char>(header.size());
  const auto read = read_checkpoint(folder.write("foreign.safetensors", foreign + header + "1234"));

  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().what, HasSubstr("not of lockstep-train"));
  for (
      const std::string odd :
      {R"({"__metadata__":"text"})", R"({"__metadata__":{"format":7}})",
       R"({"__metadata__":{"format":"lockstep-train 1","x":3}})",
       R"({"__metadata__":{"format":"lockstep-train 1"},"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})"}) {
    std::string length(8, '\0');
    length[0] = static_cast<char>(odd.size());
    EXPECT_FALSE(read_checkpoint(folder.write("odd.safetensors", length + odd))) << odd;
  }
}

TEST(CheckpointWriter, KeepsAsManyAsItIsTold) {
  const testing::TemporaryFolder folder;
  CheckpointWriter writer(folder.path(), 2);

  for (const std::int64_t step : {10, 20, 30, 40})
    ASSERT_TRUE(writer.save(step, some_checkpoint()));
  ASSERT_TRUE(writer.finish());

  EXPECT_THAT(checkpoints_in(folder.path()),
              ::testing::ElementsAre(checkpoint_path(folder.path(), 30),
                                     checkpoint_path(folder.path(), 40)));
}

TEST(CheckpointWriter, WritesTheTensorsOfTheMomentOfSaving) {
  const testing::TemporaryFolder folder;
  CheckpointWriter writer(folder.path(), 1);
  Checkpoint checkpoint = some_checkpoint(1);
  Tensor weight = checkpoint.tensors[0].value;

  ASSERT_TRUE(writer.save(1, checkpoint));
  weight.fill_(2);  // training goes on
  ASSERT_TRUE(writer.finish());

  EXPECT_EQ(
      read_checkpoint(checkpoint_path(folder.path(), 1))->tensors[0].value[0][0].item<float>(), 1);
}

TEST(CheckpointWriter, SaysWhenItCannotWrite) {
  const testing::TemporaryFolder folder;
  CheckpointWriter writer(folder.write("a_file", "x") / "below", 1);

  ASSERT_TRUE(writer.save(1, some_checkpoint()));
  const Status end = writer.finish();

  ASSERT_FALSE(end);
  EXPECT_THAT(end.error().what, HasSubstr("could not be written"));
}

TEST(CheckpointWriter, NeverRemovesWhatItJustWrote) {
  const testing::TemporaryFolder folder;
  // of another run
  ASSERT_TRUE(write_checkpoint(checkpoint_path(folder.path(), 90), some_checkpoint()));
  CheckpointWriter writer(folder.path(), 1);

  ASSERT_TRUE(writer.save(10, some_checkpoint()));
  ASSERT_TRUE(writer.finish());

  EXPECT_TRUE(std::filesystem::exists(checkpoint_path(folder.path(), 10)));
}

TEST(ResumePoint, SetsAsideWhatALaterRunWouldTakeForItsOwn) {
  const testing::TemporaryFolder folder;
  for (const std::int64_t step : {4, 6})
    ASSERT_TRUE(write_checkpoint(checkpoint_path(folder.path(), step), some_checkpoint()));

  set_aside_later_ones(folder.path(), 4);

  EXPECT_THAT(checkpoints_in(folder.path()),
              ::testing::ElementsAre(checkpoint_path(folder.path(), 4)));
  EXPECT_TRUE(std::filesystem::exists(checkpoint_path(folder.path(), 6).string() + ".aside"))
      << "nothing is lost";
}

TEST(ResumePoint, IsThisRunsOwnAfterARestartWhateverItBeganWith) {
  const testing::TemporaryFolder folder;
  ASSERT_TRUE(write_checkpoint(checkpoint_path(folder.path(), 5), some_checkpoint()));

  EXPECT_TRUE(find_resume_point("never", folder.path(), 1)->has_value());
  EXPECT_EQ((*find_resume_point((folder / "given.safetensors").string(), folder.path(), 1))->file,
            checkpoint_path(folder.path(), 5));
}

TEST(ResumePoint, IsTheNewestOfTheFolder) {
  const testing::TemporaryFolder folder;
  for (const std::int64_t step : {9, 100})
    ASSERT_TRUE(write_checkpoint(checkpoint_path(folder.path(), step), some_checkpoint()));

  const auto found = find_resume_point("auto", folder.path(), 0);

  ASSERT_TRUE(found && found->has_value());
  EXPECT_EQ((*found)->file, checkpoint_path(folder.path(), 100));
  EXPECT_FALSE(find_resume_point("never", folder.path(), 0)->has_value());
  EXPECT_FALSE(find_resume_point("auto", folder / "empty", 0)->has_value());
}

TEST(ResumePoint, OffersTheOneBeforeADamagedOne) {
  const testing::TemporaryFolder folder;
  ASSERT_TRUE(write_checkpoint(checkpoint_path(folder.path(), 1), some_checkpoint()));
  folder.write("step-000000002.safetensors", "cut");

  const auto refused = find_resume_point("auto", folder.path(), 0);
  const auto restarted = find_resume_point("auto", folder.path(), 1);

  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().next, HasSubstr("step-000000001.safetensors"));
  ASSERT_TRUE(restarted && restarted->has_value());
  EXPECT_EQ((*restarted)->file, checkpoint_path(folder.path(), 1));
  EXPECT_THAT((*restarted)->words, HasSubstr("taking the one before"));
}

}  // namespace
}  // namespace lockstep
