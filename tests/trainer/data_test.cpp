#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "reference_trainer/data/dataset.hpp"
#include "reference_trainer/data/loader.hpp"
#include "reference_trainer/data/sampler.hpp"
#include "reference_trainer/failure.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

std::vector<std::int64_t> all_of_rank(Sampler& sampler) {
  std::vector<std::int64_t> samples;
  for (std::int64_t i = 0; i < sampler.batches(); ++i)
    for (const std::int64_t sample : sampler.batch(i)) samples.push_back(sample);
  return samples;
}

TEST(Sampler, GivesEachSampleToOneRank) {
  std::multiset<std::int64_t> seen;
  for (int rank = 0; rank < 3; ++rank) {
    Sampler sampler({.samples = 24, .rank = rank, .world = 3, .batch_size = 4});
    for (const std::int64_t sample : all_of_rank(sampler)) seen.insert(sample);
  }

  EXPECT_EQ(seen.size(), 24U);
  EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), 24U);
}

TEST(Sampler, GivesEveryRankAsManyBatchesWhateverTheTail) {
  for (const bool drop_last : {true, false})
    for (std::int64_t samples = 1; samples < 40; ++samples) {
      std::set<std::int64_t> batches;
      std::set<std::size_t> lengths;
      for (int rank = 0; rank < 3; ++rank) {
        Sampler sampler({.samples = samples,
                         .rank = rank,
                         .world = 3,
                         .batch_size = 4,
                         .drop_last = drop_last});
        batches.insert(sampler.batches());
        lengths.insert(all_of_rank(sampler).size());
      }
      EXPECT_EQ(batches.size(), 1U) << samples;
      EXPECT_EQ(lengths.size(), 1U) << samples;
    }
}

TEST(Sampler, LeavesNothingOutWithoutDropLast) {
  std::set<std::int64_t> seen;
  for (int rank = 0; rank < 2; ++rank) {
    Sampler sampler({.samples = 11, .rank = rank, .world = 2, .batch_size = 4, .drop_last = false});
    for (const std::int64_t sample : all_of_rank(sampler)) seen.insert(sample);
  }

  EXPECT_EQ(seen.size(), 11U);
}

TEST(Sampler, TakesTheSameSamplesForTwoRanksAsForOneWithTheDoubledBatch) {
  Sampler one({.samples = 64, .rank = 0, .world = 1, .batch_size = 8, .seed = 3});
  Sampler first({.samples = 64, .rank = 0, .world = 2, .batch_size = 4, .seed = 3});
  Sampler second({.samples = 64, .rank = 1, .world = 2, .batch_size = 4, .seed = 3});

  for (std::int64_t i = 0; i < one.batches(); ++i) {
    std::vector<std::int64_t> both = first.batch(i);
    for (const std::int64_t sample : second.batch(i)) both.push_back(sample);
    EXPECT_THAT(both, ::testing::UnorderedElementsAreArray(one.batch(i)));
  }
}

TEST(Sampler, HasAnotherOrderInAnotherEpochAndTheSameInTheSame) {
  Sampler sampler({.samples = 50, .batch_size = 50});
  const auto first = sampler.batch(0);
  sampler.set_epoch(1);
  const auto second = sampler.batch(0);
  sampler.set_epoch(0);

  EXPECT_NE(first, second);
  EXPECT_EQ(first, sampler.batch(0));
}

TrainSettings tiny_settings() {
  TrainSettings settings;
  settings.sequence_length = 8;
  settings.dataset_size = 40;
  return settings;
}

TEST(Dataset, CutsTextIntoSamplesWhoseTargetsAreOneAhead) {
  const testing::TemporaryFolder folder;
  TrainSettings settings = tiny_settings();
  settings.data = folder.write("text.txt", "abcdefghijklmnopq").string();  // 17 bytes: two samples

  const auto dataset = open_dataset(settings, *shape_of(settings));
  const Batch batch = dataset->batch_of({1});

  EXPECT_EQ(dataset->size(), 2);
  EXPECT_EQ(batch.inputs[0][0].item<std::int64_t>(), 'i');
  EXPECT_EQ(batch.targets[0][7].item<std::int64_t>(), 'q');
}

TEST(Dataset, ReadsTokenFilesWithAndWithoutAHeader) {
  const testing::TemporaryFolder folder;
  std::string tokens;
  for (int i = 0; i < 20; ++i) tokens += {static_cast<char>(i), 0};
  std::string header(1024, '\0');
  const std::int32_t head[3] = {20240520, 1, 20};
  std::memcpy(header.data(), head, sizeof head);
  TrainSettings settings = tiny_settings();

  for (const std::string& content : {tokens, header + tokens}) {
    settings.data = folder.write("tokens.bin", content).string();
    const auto dataset = open_dataset(settings, *shape_of(settings));
    EXPECT_EQ(dataset->size(), 2);
    EXPECT_EQ(dataset->batch_of({1}).inputs[0][0].item<std::int64_t>(), 8);
  }
}

TEST(Dataset, RefusesFilesThatCannotBeTrainedOn) {
  const testing::TemporaryFolder folder;
  TrainSettings settings = tiny_settings();
  for (const std::string& path :
       {folder.write("short.txt", "abc").string(), folder.write("empty", "").string(),
        (folder / "absent").string(), folder.path().string()}) {
    settings.data = path;
    EXPECT_THROW(open_dataset(settings, *shape_of(settings)), TrainFailure) << path;
  }
}

TEST(Dataset, RefusesTokensThatTheModelDoesNotKnowBeforeTheFirstStep) {
  const testing::TemporaryFolder folder;
  TrainSettings settings = tiny_settings();
  settings.data_format = "tokens";
  settings.data = folder.write("tokens.bin", std::string(40, '\x7f')).string();  // 0x7f7f of 256

  EXPECT_THROW(open_dataset(settings, *shape_of(settings)), TrainFailure);
}

TEST(Dataset, RefusesTokenFilesThatAreCutShort) {
  const testing::TemporaryFolder folder;
  TrainSettings settings = tiny_settings();
  settings.data_format = "tokens";
  std::string header(1024, '\0');
  const std::int32_t head[3] = {20240520, 1, 999};
  std::memcpy(header.data(), head, sizeof head);
  const std::int32_t llama[3] = {20240801, 7, 20};
  std::string other(1024, '\0');
  std::memcpy(other.data(), llama, sizeof llama);

  for (const std::string& content :
       {std::string(41, '\0'), header + std::string(40, '\0'), other + std::string(80, '\0')}) {
    settings.data = folder.write("tokens.bin", content).string();
    EXPECT_THROW(open_dataset(settings, *shape_of(settings)), TrainFailure);
  }
}

TEST(Loader, HandsBatchesOverInOrderHoweverManyWorkers) {
  const TrainSettings settings = tiny_settings();
  const auto dataset = open_dataset(settings, *shape_of(settings));
  const SamplerOptions sampler{.samples = dataset->size(), .batch_size = 3, .seed = 5};
  Sampler expected(sampler);

  for (const bool preload : {false, true})
    for (const std::int64_t workers : {0, 1, 4}) {
      Loader loader(*dataset, sampler, {.workers = workers, .preload = preload});
      for (const std::int64_t epoch : {0, 1}) {
        expected.set_epoch(epoch);
        loader.start_epoch(epoch, 2);
        for (std::int64_t i = 2; i < expected.batches(); ++i) {
          const auto batch = loader.next();
          ASSERT_TRUE(batch);
          EXPECT_TRUE(at::equal(batch->inputs, dataset->batch_of(expected.batch(i)).inputs))
              << workers << " " << i;
        }
        EXPECT_FALSE(loader.next());
      }
    }
}

TEST(Loader, CanBeLeftInTheMiddleOfAnEpoch) {
  const TrainSettings settings = tiny_settings();
  const auto dataset = open_dataset(settings, *shape_of(settings));
  Loader loader(*dataset, {.samples = dataset->size(), .batch_size = 3},
                {.workers = 2, .delay = 1ms});
  loader.start_epoch(0);

  EXPECT_TRUE(loader.next());
}

TEST(Loader, ThrowsWhatAWorkerCouldNotRead) {
  struct Broken : Dataset {
    std::int64_t size() const override { return 10; }
    Batch batch_of(const std::vector<std::int64_t>&) const override {
      throw TrainFailure("the disk is gone", "look for it");
    }
    std::string description() const override { return "broken"; }
  } dataset;
  Loader loader(dataset, {.samples = 10, .batch_size = 2}, {.workers = 2});
  loader.start_epoch(0);

  EXPECT_THROW(loader.next(), TrainFailure);
}

}  // namespace
}  // namespace lockstep
