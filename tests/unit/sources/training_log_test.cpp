// What is known of a training program's own output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "messages/known_messages.hpp"
#include "sources/log/training_log.hpp"
#include "support/text_lines.hpp"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::lines_of;

TEST(TrainingLog, FindsEachKnownMessageOnce) {
  const auto log = parse_training_log(lines_of(
      "epoch 1\n[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
      "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
      "ValueError: environment variable WORLD_SIZE expected, but not set\n"));

  ASSERT_TRUE(log);
  EXPECT_EQ(log->records.size(), 2U);
  EXPECT_FALSE(parse_training_log(lines_of("epoch 1 loss 0.5\nepoch 2 loss 0.4\n")))
      << "an ordinary log is no input";
}

std::vector<std::string> told_in(const std::string& text) {
  std::vector<std::string> codes;
  if (const auto log = parse_training_log(lines_of(text)))
    for (const Record& record : log->records) {
      const std::string& detail = std::get<Event>(record.content).detail;
      codes.push_back(detail.substr(0, detail.find(' ')));
    }
  return codes;
}

TEST(TrainingLog, TakesNoWebClientsTroubleForTheRendezvous) {
  EXPECT_THAT(told_in("urllib3.exceptions.NameResolutionError: Failed to resolve 'api.wandb.ai' "
                      "([Errno -3] Temporary failure in name resolution)\n"
                      "step 1 loss 2.1\n"),
              IsEmpty());
  EXPECT_THAT(told_in("NCCL WARN Call to bind failed: Address already in use\n"), IsEmpty());
  EXPECT_THAT(told_in("OSError: [Errno 98] Address already in use\n"), ElementsAre("L801?"))
      << "a web server's port, or the rendezvous'";
  EXPECT_THAT(told_in("[W socket.cpp:436] [c10d] The server socket has failed to bind to "
                      "[::]:29500 (errno: 98 - Address already in use).\n"),
              ElementsAre("L801"));
  EXPECT_THAT(told_in("[E socket.cpp:601] [c10d] The IPv6 network addresses of (node0, 29500) "
                      "cannot be retrieved (gai error: -2 - Name or service not known).\n"),
              ElementsAre("L804"));
  EXPECT_THAT(told_in("[W socket.cpp:601] [c10d] The IPv6 network addresses of (localhost, 51595) "
                      "cannot be retrieved (gai error: -2 - Name or service not known).\n"),
              IsEmpty())
      << "PyTorch goes on with IPv4";
  EXPECT_THAT(told_in("[W socket.cpp:601] [c10d] The IPv6 network addresses of (node0, 29500) "
                      "cannot be retrieved (gai error: -2 - Name or service not known).\n"),
              ElementsAre("L804?"))
      << "so it does here, unless IPv4 fails, too";
  EXPECT_THAT(told_in("nginx: [emerg] bind() to 0.0.0.0:80 failed (98: Address already in use)\n"),
              IsEmpty());
  EXPECT_THAT(told_in("torch.distributed.DistNetworkError: The client socket has timed out after "
                      "300000ms while trying to connect to (node0, 29500).\n"),
              ElementsAre("L804"));
}

TEST(TrainingLog, KnowsWhetherOthersHoldTheMemory) {
  const std::string begin =
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 496.00 MiB. GPU 0 has a total "
      "capacity of 14.75 GiB of which 235.06 MiB is free. ";
  EXPECT_THAT(told_in(begin + "Process 20398 has 14.52 GiB memory in use. Of the allocated memory "
                              "14.06 GiB is allocated by PyTorch, and 330.42 MiB is reserved by "
                              "PyTorch but unallocated.\n"),
              ElementsAre("B506"))
      << "in a container the run itself is listed as a process";
  EXPECT_THAT(told_in(begin + "Process 7 has 577.00 MiB memory in use. Including non-PyTorch "
                              "memory, this process has 13.9 GiB memory in use.\n"),
              ElementsAre("B506"))
      << "a context is not what keeps it from its memory";
  EXPECT_THAT(told_in(begin + "Process 7 has 9.10 GiB memory in use. Including non-PyTorch memory, "
                              "this process has 5.2 GiB memory in use.\n"),
              ElementsAre("L802"));
}

TEST(TrainingLog, DoubtsAGpuWithoutRoomThatHadRoom) {
  const std::string asked = "torch.OutOfMemoryError: XPU out of memory. Tried to allocate ";
  EXPECT_THAT(
      told_in(asked + "2.00 MiB. GPU 0 has a total capacity of 31.89 GiB of which 31.82 GiB "
                      "is free.\n"),
      ElementsAre("B506?"));
  EXPECT_THAT(
      told_in(asked + "2.00 MiB. GPU 0 has a total capacity of 31.89 GiB of which 1.2 MiB is "
                      "free.\n"),
      ElementsAre("B506"));
  EXPECT_THAT(told_in("CUDA out of memory. Tried to allocate 30.0 GiB (GPU 0; 79.1 GiB total "
                      "capacity; 40.0 GiB already allocated; 38.0 GiB free; 40.2 GiB reserved in "
                      "total by PyTorch)\n"),
              ElementsAre("B506"))
      << "less than twice what was asked for";
}

TEST(TrainingLog, DoesNotBlameTheOneThatTellsOfAPeersEnd) {
  const std::string traceback =
      "Traceback (most recent call last):\n  File \"train.py\", line 9, in <module>\n";
  for (
      const std::string last :
      {"RuntimeError: Connection reset by peer\n",
       "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:268, remote process "
       "exited "
       "or there was a network error, NCCL version 2.21.5\nncclRemoteError: A call failed possibly "
       "due to a network error or a remote process exiting prematurely.\n",
       "RuntimeError: [14] is setting up NCCL communicator and retrieving ncclUniqueId from [0] "
       "via "
       "c10d key-value store by key '0', but store->get('0') got error: Connection reset by peer\n",
       "RuntimeError: [/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by peer "
       "[172.17.0.2]:16786\n"})
    EXPECT_THAT(told_in(traceback + last), ElementsAre("L806?")) << last;
  EXPECT_THAT(told_in(traceback + "ConnectionError: no such bucket\n"), ElementsAre("L809"));
}

// Milliseconds of the last step line, and its share of waiting for data.
std::pair<double, double> last_step_of(const std::string& text) {
  const auto log = parse_training_log(lines_of(text));
  if (!log) return {0, 0};
  const auto* const step = std::get_if<StepMark>(&log->records.back().content);
  if (step == nullptr) return {0, 0};
  return {step->duration_ms,
          step->spans_ms[index_of(StepPart::data_wait)].value_or(0) / step->duration_ms};
}

std::string thrice(const std::string& line) { return line + "\n" + line + "\n" + line + "\n"; }

TEST(TrainingLog, TellsHowLongStepsTakeWhereItSaysSo) {
  EXPECT_EQ(last_step_of(thrice("step:12/5100 train_time:2146ms step_avg:178.89ms")).first, 178.89);
  EXPECT_EQ(last_step_of(thrice("[2024-05-01] iteration 10/ 500 | elapsed time per iteration (ms): "
                                "6722.4 | learning rate: 1e-4"))
                .first,
            6722.4);
  EXPECT_EQ(last_step_of(thrice("iter 100: loss 3.2, time 134.50ms, mfu 12.00%")).first, 134.5);
  EXPECT_EQ(last_step_of(thrice(" 41%|####   | 366/903 [5:15<6:53, 46.16s/it]")).first, 46160);
  EXPECT_EQ(last_step_of(thrice("Epoch 3: 10%|# | 36/90 [00:15<00:53, 4.00it/s, loss=0.1]")).first,
            250);
  EXPECT_EQ(last_step_of("epoch 1 loss 0.5\nepoch 2 loss 0.4\nepoch 3 loss 0.3\n").first, 0);
  EXPECT_EQ(last_step_of("one 4.00it/s\n").first, 0) << "a line or two are no training";
}

TEST(TrainingLog, TakesWhatLiesBetweenTwoBarsForTheirSteps) {
  // The rate that a bar shows is smoothed: 15 s here, where steps take 5.
  EXPECT_EQ(last_step_of("  6%|6 | 1/16 [01:18<19:31, 78.12s/it]\n"
                         " 25%|25| 4/16 [01:33<03:03, 15.26s/it]\n"
                         " 50%|50| 8/16 [01:53<00:59,  7.43s/it]\n")
                .first,
            5000);
  EXPECT_EQ(last_step_of(" 10%|1 | 10/100 [00:01<00:10, 8.00it/s]\n"
                         " 20%|2 | 20/100 [00:02<00:09, 8.00it/s]\n"
                         " 30%|3 | 30/100 [00:03<00:08, 8.00it/s]\n")
                .first,
            125)
      << "too short for a clock of whole seconds";
}

TEST(TrainingLog, ReadsNumbersByTheirUnits) {
  EXPECT_EQ(last_step_of(thrice("step 110 | loss 3.05 | 411.9 ms/step | 158k tok/s")).first, 411.9);
  EXPECT_EQ(last_step_of(thrice("1875/1875 - 4s 2ms/step - loss: 0.3")).first, 2);
  EXPECT_EQ(last_step_of(thrice("iter 3: loss 2.1 (0.25 s/iter)")).first, 250);
  EXPECT_EQ(last_step_of(thrice("loss=2.1 speed=4 steps/s")).first, 250);
  EXPECT_EQ(last_step_of(thrice("validation: 3 steps/s")).first, 0) << "no training";
  EXPECT_EQ(last_step_of(thrice("loss 2.1 at ?? ms/step")).first, 0);
}

TEST(TrainingLog, TakesNoWordOfAnAllocatorForAFailure) {
  EXPECT_THAT(
      told_in("W tensorflow/core/common_runtime/bfc_allocator.cc:246] Allocator (GPU_0_bfc) ran "
              "out of memory trying to allocate 546MiB. The caller indicates that this is not "
              "a failure, but may mean that there could be performance gains.\n"
              "2021-08-30 02:24:22: I tensorflow/stream_executor/cuda/cuda_driver.cc:775] failed "
              "to allocate 177.62M: CUDA_ERROR_OUT_OF_MEMORY: out of memory\n"),
      IsEmpty());
  EXPECT_THAT(told_in("RuntimeError: Resource exhausted: OOM when allocating tensor\n"),
              ElementsAre("B506"));
}

TEST(TrainingLog, KnowsWhoIsMissingAtTheStartOfJaxAndRay) {
  EXPECT_THAT(told_in("XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: "
                      "PjRT_Client_Connect. Timed out task names:\n/job:jax_worker/task:1\n"),
              ElementsAre("L806"));
  EXPECT_THAT(
      told_in("ray.memory_monitor.RayOutOfMemoryError: More than 95% of the memory on node\n"),
      ElementsAre("B508"));
  EXPECT_THAT(told_in("WARNING: The node 'n4' has failed to shutdown the rendezvous 'x' due to an "
                      "error of type RendezvousConnectionError.\n"),
              ElementsAre("L806?"))
      << "the run had ended";
}

TEST(TrainingLog, CallsNoStepCancelledThatOneOfItsTasksEnded) {
  const std::string cancelled =
      "slurmstepd: error: *** STEP 45380617.0 ON nid1 CANCELLED AT 2025-11-19T12:13:27 ***\n";
  EXPECT_THAT(told_in(cancelled), ElementsAre("L810?"));
  EXPECT_THAT(told_in("srun: error: nid1: task 3: Exited with exit code 1\n" + cancelled),
              ElementsAre("L809?"));
  EXPECT_THAT(
      told_in("slurmstepd: error: *** STEP 1.0 ON nid1 CANCELLED AT 2025-11-19T12:13:27 DUE "
              "TO TASK FAILURE ***\n"),
      IsEmpty());
}

TEST(TrainingLog, KnowsHowOtherSchedulersEndJobs) {
  EXPECT_THAT(told_in("TERM_RUNLIMIT: job killed after reaching LSF run time limit.\n"),
              ElementsAre("L810"));
  EXPECT_THAT(told_in("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.\n"),
              ElementsAre("B508"));
  EXPECT_THAT(told_in("=>> PBS: job killed: walltime 259217 exceeded limit 259200\n"),
              ElementsAre("L810"));
}

TEST(TrainingLog, FindsAnExceptionBeforeASchedulersReport) {
  std::string report = "Sender: LSF System <lsfadmin@host>\n";
  for (int line = 0; line < 30; ++line) report += "about the job\n";
  EXPECT_THAT(told_in("Traceback (most recent call last):\n  File \"main.py\", line 92\n"
                      "TypeError: training_loop() got an unexpected argument 'isServer'\n" +
                      report),
              ElementsAre("L809"));
}

TEST(TrainingLog, ReadsBarsThatStandInOneLine) {
  EXPECT_EQ(last_step_of("  0%|  | 1/321 [00:03<19:00,  3.56s/it] 10%|#| 11/321 [00:23<11:46,  "
                         "2.21s/it] 20%|##| 21/321 [00:43<09:28,  1.79s/it]\n")
                .first,
            2000);
  EXPECT_EQ(last_step_of("Scanning masks: 10%|#| 9/90 [00:01<00:09, 990it/s]Scanning masks: 20%|#| "
                         "18/90 [00:02<00:08, 990it/s]Scanning masks: 30%|#| 27/90 [00:03<00:07, "
                         "990it/s]\n")
                .first,
            0)
      << "no steps of a training";
  const std::string bars =
      "  0%|  | 9/90 [00:00<00:00, 990it/s] 50%|##| 45/90 [00:01<00:00, 990it/s]";
  EXPECT_EQ(last_step_of(thrice("Scanning mask files\n" + bars)).first, 0) << "the line above says";
  EXPECT_GT(last_step_of(thrice("Epoch 2\n" + bars)).first, 0);
}

TEST(TrainingLog, ReadsTheTimesThatOwnLoopsPrint) {
  EXPECT_EQ(last_step_of(thrice("Step 1 | loss: 10.90 | norm 14.8679 | dt 335.23ms | 1563963.40 "
                                "tokens/sec"))
                .first,
            335.23);
  EXPECT_DOUBLE_EQ(
      last_step_of(thrice("step:2 - actor/entropy:0.39 - timing_s/step:522.7 - perf/mfu:0.3"))
          .first,
      522'700);
}

TEST(TrainingLog, CallsNoHelpersThreadTheEndOfTheProgram) {
  EXPECT_THAT(told_in("Exception in thread ChkStopThr:\nTraceback (most recent call last):\n"
                      "  File \"threading.py\", line 932\nEOFError\n"
                      "EOFError: Ran out of input\nKeyboardInterrupt\n"),
              ElementsAre("L810?"));
}

TEST(TrainingLog, KnowsThatADiskIsFull) {
  const std::string traceback = "Traceback (most recent call last):\n  File \"t.py\", line 3\n";
  EXPECT_THAT(
      told_in(traceback + "SafetensorError: Error while serializing: IoError(Os { code: 122, "
                          "message: \"Disk quota exceeded\" })\n"),
      ElementsAre("L809"));
  EXPECT_THAT(told_in("OSError: [Errno 28] No space left on device\n"), ElementsAre("L809?"));
  EXPECT_THAT(
      told_in("RuntimeError: unable to write to file </torch_1_2>: No space left on device\n"),
      ElementsAre("L803"))
      << "shared memory";
}

std::vector<std::string> evidence_in(const std::string& text) {
  std::vector<std::string> words;
  if (const auto log = parse_training_log(lines_of(text)))
    for (const Record& record : log->records)
      if (const auto* const event = std::get_if<Event>(&record.content))
        words.push_back(event->detail);
  return words;
}

TEST(TrainingLog, SaysThatARunWentOnBehindAnErrorThatWasCaught) {
  const std::string error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n";
  const std::string progress = "epoch 2 loss 0.8\nepoch 3 loss 0.7\nepoch 4 loss 0.6\n";

  EXPECT_THAT(evidence_in("epoch 1 loss 0.9\n" + error + progress),
              ElementsAre(HasSubstr("line 2"), HasSubstr(kRunWentOn)));
  EXPECT_THAT(evidence_in(progress + error), ElementsAre(HasSubstr("line 4")))
      << "it ended the run";
  EXPECT_THAT(evidence_in(error + progress + "RuntimeError: shape mismatch\n"),
              ElementsAre(HasSubstr("line 1")))
      << "something else ended it";
}

TEST(TrainingLog, TakesNoSummaryOfALoggerForARunThatWentOn) {
  EXPECT_THAT(evidence_in("IoError(Os { message: \"Disk quota exceeded\" })\n"
                          "wandb:   train/loss 1.4358\nwandb: train/epoch 0.52\n"
                          "wandb: train/global_step 260\n"),
              ElementsAre(HasSubstr("line 1")));
}

TEST(TrainingLog, TakesNoDumpOfMemoryForARunThatWentOn) {
  EXPECT_THAT(evidence_in("Execution of replica 0 failed: RESOURCE_EXHAUSTED: Out of memory while "
                          "trying to allocate 3176030352 bytes.\nBufferAssignment:\n"
                          "allocation 1\nallocation 2\nallocation 3\n"),
              ElementsAre(HasSubstr("line 1")));
}

TEST(TrainingLog, SaysThatAProgramWentOnThatToldOfAnErrorInItsOwnWords) {
  EXPECT_THAT(evidence_in("Doesn't fit on GPU. CUDA out of memory. Tried to allocate 2.00 GiB\n"
                          "Model  Memory\nsmall  4281\nlarge  N/A\n"),
              ElementsAre(HasSubstr("line 1"), HasSubstr(kRunWentOn)));
}

TEST(TrainingLog, TellsWhatOfAStepIsWaitingForData) {
  const auto [step, share] = last_step_of(
      thrice("Epoch: [0][1760/5005]   Time 1.599 (2.648)      Data 1.296 (2.388)      Loss 5.6"));
  EXPECT_EQ(step, 2648) << "the mean so far, not one batch";
  EXPECT_NEAR(share, 0.902, 0.001);
  const auto [mmcv, none] = last_step_of(
      thrice("Epoch [1][50/7330] lr: 1e-3, eta: 1 day, time: 0.500, data_time: 0.050"));
  EXPECT_EQ(mmcv, 500);
  EXPECT_NEAR(none, 0.1, 1e-9);
}

TEST(TrainingLog, KnowsCudasErrorsWithoutPythonsHeading) {
  EXPECT_THAT(told_in("[rank3]:[E115 ProcessGroupNCCL.cpp:1899] Process group watchdog thread "
                      "terminated with exception: CUDA error: an illegal memory access was "
                      "encountered\n"),
              ElementsAre("L811"));
  EXPECT_THAT(told_in("RuntimeError: CUDA error: device-side assert triggered\n"),
              ElementsAre("L809"));
  EXPECT_THAT(told_in("RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 16x2)\n"),
              ElementsAre("L809"))
      << "a paste of the last line alone";
  EXPECT_THAT(told_in("ValueError: cannot read sample 7, taking the next\nstep 12 loss 0.4\n"),
              IsEmpty());
}

TEST(TrainingLog, KnowsHowGpusAndLinksGoDown) {
  EXPECT_THAT(told_in("HW Exception by GPU node-9 (Agent handle: 0x63) reason :GPU Hang\n"),
              ElementsAre("H605"));
  EXPECT_THAT(told_in("what():  CUDA error: unknown error\n"), ElementsAre("H604?"));
  EXPECT_THAT(told_in("net_ib.cc:1296 NCCL WARN NET/IB : Got completion from peer 10.2.0.5<33092> "
                      "with error 12, opcode 0, len 0, vendor err 129 (Recv)\n"),
              ElementsAre("L812"));
}

TEST(TrainingLog, SaysOfAKilledRankThatMemoryIsTheUsualReason) {
  EXPECT_THAT(told_in("  exitcode  : -9 (pid: 4242)\n"), ElementsAre("B508?"));
  EXPECT_THAT(told_in("torch.distributed.elastic: failed (exitcode: -9) local_rank: 0\n"),
              ElementsAre("B508?"));
  EXPECT_THAT(told_in("job.sh: line 22:  4913 Killed                  python3 main.py\n"),
              ElementsAre("B508?"));
  EXPECT_THAT(told_in("[enforce fail at CPUAllocator.cpp:64] . DefaultCPUAllocator: can't allocate "
                      "memory: you tried to allocate 402653184 bytes.\n"),
              ElementsAre("B508"));
  EXPECT_THAT(
      told_in("misc/socket.cc:538 NCCL WARN Net : Connection closed by remote peer n2<4>\n"),
      ElementsAre("L806?"));
  EXPECT_THAT(told_in("slurmstepd: error: Detected 1 oom_kill event in StepId=812.0.\n"),
              ElementsAre("B508"));
  EXPECT_THAT(told_in("RuntimeError: DataLoader worker (pid 71) is killed by signal: Killed.\n"),
              ElementsAre("B508"));
  EXPECT_THAT(told_in("RuntimeError: DataLoader worker (pid 71) is killed by signal: Bus error.\n"),
              ElementsAre("L803"));
  EXPECT_THAT(told_in("RuntimeError: CUDA error: out of memory\n"), ElementsAre("B506"));
  EXPECT_THAT(told_in("Unable to determine the device handle for GPU0000:03:00.0: Unknown Error\n"),
              ElementsAre("H605"));
}

TEST(TrainingLog, TellsADeviceMapFromATensorThatWasNotMoved) {
  const std::string two =
      "RuntimeError: Expected all tensors to be on the same device, but found at least two "
      "devices, cuda:0 and cuda:1!\n";
  EXPECT_THAT(told_in(two), ElementsAre("P101?"));
  EXPECT_THAT(
      told_in("  File \"/venv/transformers/models/llama/modeling_llama.py\", line 88\n" + two),
      ElementsAre("P101"));
  EXPECT_THAT(told_in("RuntimeError: Expected all tensors to be on the same device, but found at "
                      "least two devices, cuda:0 and cpu!\n"),
              ElementsAre("L809"))
      << "a defect of the program, no map";
}

TEST(TrainingLog, NeedsALauncherToCallAMissingGpuOneRankTooMany) {
  const std::string message = "RuntimeError: CUDA error: invalid device ordinal\n";
  EXPECT_THAT(told_in(message), ElementsAre("L805?"));
  EXPECT_THAT(told_in("torchrun --nproc_per_node=8 train.py\n" + message), ElementsAre("L805"));
}

TEST(TrainingLog, KnowsWhatEndedADistributedPass) {
  EXPECT_THAT(told_in("RuntimeError: Expected to have finished reduction in the prior iteration "
                      "before starting a new one.\n"),
              ElementsAre("C404"));
  EXPECT_THAT(told_in("RuntimeError: Expected to mark a variable ready only once.\n"),
              ElementsAre("C404"));
  EXPECT_THAT(told_in("RuntimeError: Detected mismatch between collectives on ranks.\n"),
              ElementsAre("C407"));
  EXPECT_THAT(told_in("NVRM: GPU 0000:41:00.0: GPU has fallen off the bus and is not responding to "
                      "commands.\n"),
              ElementsAre("H605"));
}

TEST(TrainingLog, AnAddressThatDoesNotAnswerNeedsNoName) {
  EXPECT_THAT(told_in("[E socket.cpp:860] [c10d] The client socket has timed out after 60s while "
                      "trying to connect to 192.0.0.1:1234\n"),
              ElementsAre("L806"));
  EXPECT_THAT(told_in("[c10d] The client socket has failed to connect to any network address of "
                      "(10.0.0.5, 29500).\n"),
              ElementsAre("L806"));
  EXPECT_THAT(told_in("[c10d] The client socket has failed to connect to any network address of "
                      "(node0, 29500).\n"),
              ElementsAre("L804"));
}

TEST(TrainingLog, CountsTheMemoryThatIsNeitherFreeNorPyTorchs) {
  const auto cause_at = [](const char* sizes) {
    return match_message(
               std::string("CUDA out of memory. Tried to allocate 50.00 MiB (GPU 0; 31.75 "
                           "GiB total capacity; ") +
               sizes)
        ->message->words;
  };
  EXPECT_EQ(cause_at("5.22 GiB already allocated; 44.69 MiB free; 5.22 GiB reserved in total by "
                     "PyTorch)"),
            kHeldElsewhere);
  EXPECT_EQ(cause_at("28.2 GiB already allocated; 44.69 MiB free; 30.3 GiB reserved in total by "
                     "PyTorch)"),
            kOutOfMemory);
  EXPECT_THAT(told_in("CUDA out of memory. Tried to allocate 50.00 MiB (GPU 0; 31.75 GiB total "
                      "capacity; 5.22 GiB already allocated; 44.69 MiB free; 5.22 GiB reserved in "
                      "total by PyTorch)\n"),
              ElementsAre("B506"));
  EXPECT_THAT(told_in("CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 31.75 GiB total "
                      "capacity; 28.2 GiB already allocated; 44.69 MiB free; 30.3 GiB reserved in "
                      "total by PyTorch)\n"),
              ElementsAre("B506"));
}

TEST(TrainingLog, TellsOtherSizesFromAnotherCollective) {
  const auto cause_of = [](const std::string& line) {
    const auto matched = match_message(line);
    return matched ? matched->message->cause : std::string_view();
  };
  const std::string begin = "Detected mismatch between collectives on ranks. Rank 1 is running ";
  EXPECT_THAT(std::string(cause_of(
                  begin + "collective: CollectiveFingerPrint(SequenceNumber=3, OpType=ALLREDUCE, "
                          "TensorShape=[195]), but Rank 0 is running collective: "
                          "CollectiveFingerPrint(SequenceNumber=3, OpType=ALLREDUCE, "
                          "TensorShape=[51])")),
              HasSubstr("different sizes"));
  EXPECT_THAT(std::string(cause_of(
                  begin + "collective: CollectiveFingerPrint(SequenceNumber=3, OpType=ALLREDUCE, "
                          "TensorShape=[195]), but Rank 0 is running collective: "
                          "CollectiveFingerPrint(SequenceNumber=3, OpType=BARRIER)")),
              HasSubstr("different collectives"));
}

TEST(TrainingLog, AWebServersPortIsNotTheRendezvous) {
  EXPECT_THAT(told_in("[ERROR] Failed to start web server: [Errno 98] Address already in use\n"),
              IsEmpty());
}

TEST(TrainingLog, KnowsWhoEndedARun) {
  EXPECT_THAT(told_in("slurmstepd: error: *** JOB 88 ON n3 CANCELLED AT 2022-04-14T16:20:46 DUE TO "
                      "TIME LIMIT ***\n"),
              ElementsAre("L810"));
  EXPECT_THAT(told_in("Received 15 death signal, shutting down workers\n"), ElementsAre("L810"));
  EXPECT_THAT(told_in("subprocess 12 exits with return code = -11\n"), ElementsAre("L811"));
  EXPECT_THAT(told_in("Signal 7 (SIGBUS) received by PID 11\n"), ElementsAre("L803?"));
}

TEST(TrainingLog, KnowsWhatNcclsNetworkSays) {
  EXPECT_THAT(told_in("NET/IB : Got completion from peer 10.2.0.7<54862> with status=12 opcode=0 "
                      "len=0 vendor err 129\n"),
              ElementsAre("L812"));
  EXPECT_THAT(told_in("socketStartConnect: Connect to fe80::1%ib1<17943> failed : Software caused "
                      "connection abort\n"),
              ElementsAre("L812"));
  EXPECT_THAT(told_in("NCCL WARN Call to ibv_modify_qp failed with 101 Network is unreachable\n"),
              ElementsAre("L812"));
  EXPECT_THAT(told_in("NCCL WARN Bootstrap Root : rank 1 of 8 ranks has already checked in\n"),
              ElementsAre("L813"));
}

const std::string kTraceback =
    "[rank0]: Traceback (most recent call last):\n"
    "[rank0]:   File \"train.py\", line 3, in <module>\n";

TEST(TrainingLog, NamesTheExceptionThatEndedTheProgram) {
  EXPECT_THAT(told_in("step 1\n" + kTraceback +
                      "[rank0]: TypeError: run() got 'count'\n"
                      "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"),
              ElementsAre("L809"));
  EXPECT_THAT(told_in("step 1\n" + kTraceback + "[rank0]: my.own.ConfigError: no batch\n"),
              ElementsAre("L809"));
}

TEST(TrainingLog, AMessageThatIsKnownExplainsTheException) {
  EXPECT_THAT(told_in(kTraceback + "[rank0]: RuntimeError: CUDA error: invalid device ordinal\n" +
                      kTraceback + "[rank1]: torch.OutOfMemoryError: CUDA out of memory.\n"),
              ElementsAre("L805?", "B506"));
}

TEST(TrainingLog, AnExceptionThatWasCaughtEndsNothing) {
  std::string text = kTraceback + "[rank0]: ValueError: bad row, skipped\n";
  for (int i = 0; i < 100; ++i) text += "step " + std::to_string(i) + " loss 2.0\n";
  EXPECT_THAT(told_in(text), IsEmpty());
  std::string told_only = text.substr(text.find("step 0"));
  EXPECT_THAT(told_in(told_only + "ValueError: bad row\n" + told_only), IsEmpty());
}

std::string timed_out(int rank, int number, const std::string& call, const std::string& group) {
  const std::string mark = "[rank" + std::to_string(rank) + "]:[E1 ProcessGroupNCCL.cpp:616] ";
  const std::string sequence = std::to_string(number);
  return mark +
         "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=" + sequence +
         ", OpType=" + call +
         ", Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n" +
         (group.empty() ? ""
                        : mark + "[PG ID 0 PG GUID " + group +
                              " Rank 0] Exception (either an error or timeout) detected by "
                              "watchdog at work: " +
                              sequence + ", last enqueued NCCL work: 9\n");
}

std::vector<std::string> details_of(const std::optional<ParsedLog>& log) {
  std::vector<std::string> details;
  if (log)
    for (const Record& record : log->records)
      if (const auto* event = std::get_if<Event>(&record.content)) details.push_back(event->detail);
  return details;
}

const std::string kSum = "ALLREDUCE, NumelIn=10, NumelOut=10";
const std::string kSend = "BROADCAST, NumelIn=1, NumelOut=1";
const std::string kAll = "0(default_pg)";

TEST(WatchdogLines, NameTheRankThatDoesNotWaitAndItsOwnError) {
  const auto log = parse_training_log(
      lines_of("[rank2]: Traceback (most recent call last):\n[rank2]: OSError: [Errno 5] x.tar\n" +
               timed_out(0, 7, kSum, kAll) + timed_out(1, 7, kSum, kAll)));

  EXPECT_THAT(
      details_of(log),
      ElementsAre("L809 line 2: [rank2]: OSError: [Errno 5] x.tar",
                  "L808 ranks 0, 1 wait in ALLREDUCE of 10 elements number 7",
                  "L808 rank 2 speaks in this log and reports no time-out: look there first",
                  HasSubstr("L808 line 3: [rank0]")));
}

TEST(WatchdogLines, OfAllRanksInOneCallBlameNone) {
  EXPECT_THAT(details_of(parse_training_log(
                  lines_of(timed_out(0, 7, kSum, kAll) + timed_out(1, 7, kSum, kAll)))),
              ElementsAre("L808 ranks 0, 1 wait in ALLREDUCE of 10 elements number 7",
                          HasSubstr("L808 line 1")));
}

TEST(WatchdogLines, ThatNameDifferentCallsOfOneGroupAreDifferentPaths) {
  const auto told = [](const std::string& lines) {
    return details_of(parse_training_log(lines_of(lines)));
  };
  EXPECT_THAT(told(timed_out(0, 7, kSum, kAll) + timed_out(1, 7, kSend, kAll) +
                   timed_out(2, 7, kSum, kAll)),
              ::testing::UnorderedElementsAre(
                  HasSubstr("L808 line 1"),
                  "C407 the ranks' watchdogs name different calls: ranks 0, 2 call ALLREDUCE of 10 "
                  "elements, rank 1 calls BROADCAST of 1 elements as number 7"));
  EXPECT_THAT(told(timed_out(0, 7, kSum, "119") + timed_out(1, 7, kSend, "112")),
              ::testing::Not(::testing::Contains(HasSubstr("C407"))))
      << "each group counts its own";
  EXPECT_THAT(told(timed_out(0, 7, kSum, "") + timed_out(1, 7, kSend, "")),
              ::testing::Not(::testing::Contains(HasSubstr("C407"))))
      << "nobody says that they are one group";
}

TEST(WatchdogLines, SayWhoIsFurthestBehind) {
  EXPECT_THAT(
      details_of(
          parse_training_log(lines_of(timed_out(0, 9, kSum, kAll) + timed_out(0, 11, kSum, kAll) +
                                      timed_out(1, 4, kSum, kAll)))),
      ::testing::Contains("L808 rank 1 waits in ALLREDUCE of 10 elements number 4, rank 0 waits in "
                          "ALLREDUCE of 10 elements number 9: rank 1 is "
                          "furthest behind, look there first"));
}

TEST(TrainingLogs, OfSeveralRanksAreReadTogether) {
  const std::vector<std::string> waits = lines_of(
      "step 1\n[E1 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation "
      "timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600012 "
      "milliseconds before timing out.\n");
  const std::vector<std::string> fails = lines_of(
      "Traceback (most recent call last):\n  File \"train.py\", line 3\n"
      "OSError: [Errno 5] Input/output error\n");
  const std::vector<OutputLog> logs = {{"logs/0/stderr.log", 0, waits},
                                       {"logs/1/stderr.log", 1, fails}};

  EXPECT_THAT(
      details_of(parse_training_logs(logs)),
      ::testing::UnorderedElementsAre(
          "L809 logs/1/stderr.log line 3: OSError: [Errno 5] Input/output error",
          HasSubstr("L808 logs/0/stderr.log line 2"), "L808 rank 0 waits in ALLREDUCE number 7",
          "L808 rank 1 speaks in this log and reports no time-out: look there first"));
}

TEST(TrainingLog, ShowsTheAssertionOfAKernel) {
  EXPECT_THAT(details_of(parse_training_log(lines_of(
                  "Loss.cu:250: nll_loss_forward: Assertion `t >= 0 && t < n_classes` failed.\n"
                  "RuntimeError: CUDA error: device-side assert triggered\n"))),
              ElementsAre(HasSubstr("L809 line 2"), HasSubstr("t < n_classes` failed")));
}

TEST(WatchdogLines, OfARankWhoseFirstLineWasCutOffCountAsWaiting) {
  const std::string cut =
      "[rank1]:[E1 ProcessGroupNCCL.cpp:1664] [PG 1 Rank 1] Exception (either an error or timeout) "
      "detected by watchdog at work: 7, last enqueued NCCL work: 9.\n";
  EXPECT_THAT(details_of(parse_training_log(lines_of(timed_out(0, 7, kSum, "") + cut))),
              ElementsAre("L808 ranks 0, 1 wait in ALLREDUCE of 10 elements number 7",
                          HasSubstr("L808 line 1")));
}

TEST(TrainingLog, TellsEachXidAndWhatItMeans) {
  EXPECT_THAT(
      details_of(
          parse_training_log(lines_of("NVRM: Xid (PCI:0000:05:00): 43, pid=1, Ch 8\n"
                                      "NVRM: Xid (PCI:0000:05:00): 43, pid=2, Ch 8\n"
                                      "NVRM: Xid (PCI:0000:08:00): 94, Contained: SM (0x1)\n"))),
      ElementsAre(HasSubstr("H604 line 1"), HasSubstr("H604 Xid 43 on PCI:0000:05:00: the "),
                  HasSubstr("H604 Xid 94 on PCI:0000:08:00: an uncorrectable memory")));
}

TEST(TrainingLog, SuspectsFromASummaryAloneThatARankEndedWithAnErrorOfItsOwn) {
  const std::string summary =
      "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
      "[0]:\n  rank      : 1 (local_rank: 1)\n  exitcode  : 1 (pid: 78971)\n";
  EXPECT_THAT(told_in(summary), ElementsAre("L809?"));
  EXPECT_THAT(told_in("Traceback (most recent call last):\nValueError: no\n" + summary),
              ElementsAre("L809"))
      << "its own error stands above";
  EXPECT_THAT(told_in("step 1\n  exitcode  : 0 (pid: 7)\n"), IsEmpty());
}

TEST(TrainingLog, OneWordOfTheShellIsAKilledProgram) {
  EXPECT_THAT(told_in("step 1 loss 2.1\nKilled\n"), ElementsAre("B508?"));
  EXPECT_THAT(told_in("step 1 loss 2.1\nKilled the learning rate\n"), IsEmpty());
}

std::vector<StepMark> steps_in(const std::string& text) {
  std::vector<StepMark> steps;
  if (const auto log = parse_training_log(lines_of(text)))
    for (const Record& record : log->records)
      if (const auto* step = std::get_if<StepMark>(&record.content)) steps.push_back(*step);
  return steps;
}

TEST(TrainingLog, LeavesTheFirstBatchOfAnEpochOutOfMeansSoFar) {
  const auto steps = steps_in(
      "Epoch: [1][0/200]\tTime 17.0 (17.0)\tData 12.0 (12.0)\n"
      "Epoch: [1][100/200]\tTime 3.0 (3.16)\tData 0.0 (0.22)\n"
      "Epoch: [2][0/200]\tTime 15.0 (15.0)\tData 11.0 (11.0)\n"
      "Epoch: [2][100/200]\tTime 3.0 (3.14)\tData 0.0 (0.21)\n");

  ASSERT_FALSE(steps.empty());
  EXPECT_NEAR(steps.back().duration_ms, 3021, 5) << "(3.14 x 101 - 15) / 100";
  EXPECT_NEAR(steps.back().spans_ms[index_of(StepPart::data_wait)].value_or(0), 102, 5);
}

TEST(TrainingLog, TakesNoValidationForSteps) {
  const auto steps = steps_in(
      "Epoch 1:  10%| | 1/10 [00:01<00:09, 1.25s/it]\nValidating:  10%| | 1/9 [00:03, 3.04s/it]\n"
      "Validating:  20%| | 2/9 [00:06, 3.50s/it]\nEpoch 1:  20%| | 2/10 [00:02, 1.27s/it]\n"
      "Epoch 1:  30%| | 3/10 [00:03, 1.26s/it]\n");

  ASSERT_EQ(steps.size(), 3U);
  EXPECT_NEAR(steps.front().duration_ms, 1250, 1);
}

TEST(TrainingLog, DoesNotCallNcclsOrAChildsErrorTheProgramsOwn) {
  EXPECT_THAT(told_in("Traceback (most recent call last):\n"
                      "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:825, unhandled system "
                      "error, NCCL version 2.7.8\n"),
              ElementsAre("L812?"));
  EXPECT_THAT(told_in("Traceback (most recent call last):\n  raise RuntimeError(\n"
                      "RuntimeError: Step 1 exited with non-zero status 1\n"),
              ElementsAre("L809?"));
  EXPECT_THAT(told_in("Traceback (most recent call last):\n"
                      "RuntimeError: mat1 and mat2 shapes cannot be multiplied\n"),
              ElementsAre("L809"));
}

TEST(TrainingLog, TellsWhoIsMissingWhereTheTextNamesThem) {
  EXPECT_THAT(
      details_of(parse_training_log(lines_of(
          "One or more tensors were submitted to be reduced, gathered or broadcasted by "
          "subset of ranks\nbroadcast_0 [missing ranks: 0]\nbroadcast_1 [missing ranks: 0]\n"))),
      ::testing::Contains("C407 missing: rank 0 (in 2 operations)"));
  EXPECT_THAT(details_of(parse_training_log(lines_of(
                  "the lagging/dead/mismatched ranks that caused the desync are:\n"
                  "  [1] finished collective #2, but didn't join collective #3\nStack trace\n"))),
              ElementsAre(HasSubstr("C407 line 1"), HasSubstr("C407 line 2: [1] finished")));
}

TEST(TrainingLog, KnowsHowSchedulersEndJobs) {
  EXPECT_THAT(
      told_in("slurmstepd: error: *** JOB 1 ON a CANCELLED AT 2022 DUE TO NODE FAILURE ***"),
      ElementsAre("L810"));
  EXPECT_THAT(told_in("slurmstepd: error: *** JOB 1 ON a CANCELLED AT 2022 DUE TO JOB REQUEUE ***"),
              ElementsAre("L810"));
  EXPECT_THAT(told_in("slurmstepd: error: *** STEP 1.0 ON a CANCELLED AT 2021-05-23T08:46:02 ***"),
              ElementsAre("L810?"))
      << "somebody's scancel, or a limit";
}

TEST(TrainingLog, TakesBatchesAsTheyArePrintedWhereEachIs) {
  std::string text;
  for (int batch = 0; batch < 6; ++batch)
    text += "Epoch: [0][" + std::to_string(batch) + "/90]\tTime 0.150 (8.0)\tData 0.001 (7.9)\n";
  const auto steps = steps_in(text);

  ASSERT_EQ(steps.size(), 5U) << "the first of its epoch starts the workers";
  EXPECT_NEAR(steps.front().duration_ms, 150, 1e-6) << "no difference of rounded means";
}

}  // namespace
}  // namespace lockstep
