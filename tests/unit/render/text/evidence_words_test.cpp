// Evidence in words, and what a report says of throughput and of time without readings.
#include <gtest/gtest.h>

#include "render/words/words.hpp"

namespace lockstep {
namespace {

TEST(EvidenceWords, SayWhatANameDoesNot) {
  EXPECT_EQ(evidence_words({"own_hollow", 0.08, std::nullopt, "fraction"}), "it waits 8 % itself");
  EXPECT_EQ(evidence_words({"exclusive_busy", 0.97, 0.8, "fraction"}),
            "one alone is busy 97 % of the time (threshold 80 %)");
  EXPECT_EQ(evidence_words({"late_by_other", 0.3, std::nullopt, "fraction"}),
            "its other code takes 30 % of a step longer");
  EXPECT_EQ(evidence_words({"slow_on_the_gpu", 1, std::nullopt, "yes"}),
            "its GPU works while they wait");
}

TEST(EvidenceWords, LeaveOtherNamesAsTheyRead) {
  EXPECT_EQ(evidence_words({"loader_workers", 0, 1.0, "processes"}),
            "loader workers 0 (threshold 1)");
  EXPECT_EQ(evidence_words({"memory_highest", 0.99, 0.97, "fraction"}),
            "memory highest 99 % (threshold 97 %)");
  EXPECT_EQ(evidence_words({"line 3: CUDA out of memory", 1, std::nullopt, "message"}),
            "line 3: CUDA out of memory");
}

Report report_of(double working, double unread, double now) {
  Report report;
  report.gpus.resize(1);
  report.findings.resize(1);
  report.throughput = Throughput{now, 1};
  Job job;
  job.gpus = {0};
  job.verdict = report.verdict = Verdict{Pattern::in_step, 0.9, ""};
  job.ledger.gpu_seconds = 100;
  job.ledger[LedgerPart::working] = working;
  job.ledger[LedgerPart::unknown] = 1 - working;
  job.ledger.unread = unread;
  report.jobs = {job};
  return report;
}

TEST(ThroughputWords, BoastOfNothingThatFindingsDoNotExplain) {
  EXPECT_EQ(throughput_words(report_of(0.7, 0, 0.75)),
            "throughput now: 75 % of what these GPUs could do");
  EXPECT_EQ(throughput_words(report_of(0.08, 0, 0.93)),
            "the findings cost 7 % of the throughput; the GPUs do not work in 92 % of the time");
  EXPECT_EQ(throughput_words(report_of(0.2, 0.75, 0.9)),
            "throughput now: 90 % of what these GPUs could do")
      << "of the time that was read they work 80 %";
}

TEST(GpuTime, OfWhichNothingIsKnownIsNotCalledIdle) {
  EXPECT_EQ(gpu_time_words(report_of(0, 0, 1)), "GPU time: not known");
  EXPECT_EQ(gpu_time_words(report_of(0.6, 0, 1)), "GPU time: working 60 %, not known 40 %");
}

TEST(UnreadTime, IsSaidAndExplainedByNobody) {
  EXPECT_EQ(ledger_words(report_of(0.06, 0.94, 1).jobs.front().ledger),
            "working 6 %, without readings 94 %");
  EXPECT_FALSE(undecided_words(report_of(0.06, 0.94, 1)));
  EXPECT_TRUE(undecided_words(report_of(0.06, 0.5, 1)));
}

}  // namespace
}  // namespace lockstep
