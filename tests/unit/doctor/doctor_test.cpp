// What the doctor makes of what it sees, on machines that are made up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "doctor/communication_checks.hpp"
#include "doctor/hardware_checks.hpp"
#include "doctor/machine_checks.hpp"
#include "doctor/node_checks.hpp"
#include "launch/arguments/machine_facts.hpp"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

Check of(const Checks& checks, const std::string& question) {
  for (const Check& check : checks)
    if (check.question.find(question) != std::string::npos) return check;
  const Check none{"", "", Answer::unknown, "no such question", ""};
  ADD_FAILURE() << "nobody asks: " << question;
  return none;
}

DriverFacts two_healthy_gpus() {
  DriverFacts facts;
  facts.driver = "580.1";
  facts.cuda = "13.0";
  for (int index = 0; index < 2; ++index) {
    GpuHardware gpu;
    gpu.index = index;
    gpu.name = "NVIDIA H100 80GB HBM3";
    gpu.persistence = gpu.ecc = true;
    gpu.ecc_corrected = gpu.ecc_uncorrected = 0;
    gpu.pcie_now = gpu.pcie_possible = PcieLink{5, 16};
    gpu.numa_node = index;
    gpu.nvlinks_up = 18;
    gpu.nvlinks_down = 0;
    facts.gpus.push_back(gpu);
  }
  facts.pairs.push_back({0, 1, true, false, "", "between sockets"});
  return facts;
}

MachineState healthy_machine() {
  MachineState state;
  state.system = "Linux 6.1 on x86_64";
  state.shared_memory = state.shared_memory_free = 64ULL << 30U;
  state.open_files = 65536;
  state.cores = 64;
  state.host = "node1";
  state.host_address = "10.0.0.1";
  state.clock = "synchronised";
  state.gpus = 2;
  return state;
}

bool any_no(const Checks& checks) {
  for (const Check& check : checks)
    if (check.answer == Answer::no) {
      EXPECT_FALSE(check.next.empty()) << check.question << ": a no needs a next step";
      return true;
    }
  return false;
}

TEST(HardwareChecks, FindNothingWrongWithHealthyGpus) {
  const Checks checks = hardware_checks(two_healthy_gpus(), "6,1,1,-;usb 1-1: new device\n");

  EXPECT_FALSE(any_no(checks));
  EXPECT_EQ(of(checks, "Xid").answer, Answer::yes);
  EXPECT_EQ(of(checks, "P2P").answer, Answer::yes);
  EXPECT_THAT(of(checks, "NUMA").detail, HasSubstr("GPU 1 on node 1"));
}

TEST(HardwareChecks, SeeALinkThatLostItsLanes) {
  DriverFacts facts = two_healthy_gpus();
  facts.gpus[1].pcie_now = PcieLink{5, 4};

  const Check check = of(hardware_checks(facts, ""), "PCIe");

  EXPECT_EQ(check.answer, Answer::no);
  EXPECT_THAT(check.detail, HasSubstr("GPU 1"));
  EXPECT_THAT(check.detail, HasSubstr("x4 of generation 5 x16"));
}

TEST(HardwareChecks, DoNotBlameALinkThatRests) {
  DriverFacts facts = two_healthy_gpus();
  facts.gpus[0].pcie_now = PcieLink{1, 16};

  EXPECT_EQ(of(hardware_checks(facts, ""), "PCIe").answer, Answer::unknown)
      << "idle GPUs lower their links to generation 1";
  facts.gpus[0].busy = true;
  EXPECT_EQ(of(hardware_checks(facts, ""), "PCIe").answer, Answer::no)
      << "under load it should not be";
}

TEST(HardwareChecks, SeeErrorsModesAndLinksThatAreDown) {
  DriverFacts facts = two_healthy_gpus();
  facts.gpus[0].ecc_uncorrected = 2;
  facts.gpus[1].persistence = false;
  facts.gpus[1].nvlinks_down = 6;
  facts.pairs[0].peer_to_peer = false;
  facts.pairs[0].peer_status = "no path between their bridges";

  const Checks checks = hardware_checks(
      facts, "3,9,8,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n");

  for (const char* const question : {"ECC", "persistence", "NVLinks", "P2P", "Xid"})
    EXPECT_EQ(of(checks, question).answer, Answer::no) << question;
  EXPECT_THAT(of(checks, "Xid").detail, HasSubstr("): 79"));
}

TEST(HardwareChecks, DoNotBlameWhatIsAsItShouldBe) {
  DriverFacts facts = two_healthy_gpus();
  facts.pairs[0].peer_to_peer = false;
  facts.pairs[0].never_can = true;

  const Checks checks =
      hardware_checks(facts, "NVRM: Xid (PCI:0000:3b:00): 31, pid=1, MMU Fault\n");

  EXPECT_EQ(of(checks, "P2P").answer, Answer::unknown) << "GPUs of this kind cannot";
  EXPECT_EQ(of(checks, "Xid").answer, Answer::unknown) << "a program's fault, not the GPU's";
}

TEST(HardwareChecks, SeeAFabricThatDoesNotRun) {
  DriverFacts facts = two_healthy_gpus();
  for (GpuHardware& gpu : facts.gpus) {
    gpu.nvlinks_up = 0;
    gpu.nvlinks_down = 18;
  }

  EXPECT_EQ(of(hardware_checks(facts, ""), "NVLinks").answer, Answer::no);
  facts.gpus.resize(1);
  EXPECT_EQ(of(hardware_checks(facts, ""), "NVLinks").answer, Answer::unknown)
      << "one GPU alone is wired to nobody";
}

TEST(HardwareChecks, DoNotAskForBridgesBetweenCards) {
  DriverFacts facts = two_healthy_gpus();
  for (GpuHardware& gpu : facts.gpus) {
    gpu.name = "NVIDIA H100 PCIe";
    gpu.nvlinks_up = 0;
    gpu.nvlinks_down = 18;
  }

  const Check check = of(hardware_checks(facts, ""), "NVLinks");

  EXPECT_EQ(check.answer, Answer::unknown);
  EXPECT_THAT(check.detail, HasSubstr("no bridge"));
}

TEST(HardwareChecks, KnowWhichXidsAreOfPrograms) {
  for (const char* const xid : {"13", "31", "43", "45", "68"})
    EXPECT_EQ(of(hardware_checks(two_healthy_gpus(),
                                 std::string("NVRM: Xid (PCI:0000:3b:00): ") + xid + ", pid=1\n"),
                 "Xid")
                  .answer,
              Answer::unknown)
        << xid;
  for (const char* const xid : {"48", "79", "113", "131"})
    EXPECT_EQ(of(hardware_checks(two_healthy_gpus(),
                                 std::string("NVRM: Xid (PCI:0000:3b:00): ") + xid + ", pid=1\n"),
                 "Xid")
                  .answer,
              Answer::no)
        << xid;
}

TEST(HardwareChecks, KnowWhatTheyDoNotKnow) {
  DriverFacts facts;
  facts.gpus.emplace_back();

  const Checks checks = hardware_checks(facts, std::nullopt);

  for (const Check& check : checks) EXPECT_EQ(check.answer, Answer::unknown) << check.question;
  EXPECT_THAT(of(checks, "P2P").detail, HasSubstr("one GPU alone"));
}

TEST(MachineChecks, FindNothingWrongWithAHealthyMachine) {
  EXPECT_FALSE(any_no(machine_checks(healthy_machine(), kUsualPort)));
}

TEST(MachineChecks, SeeDockersSharedMemory) {
  MachineState state = healthy_machine();
  state.shared_memory = state.shared_memory_free = 64ULL << 20U;

  const Check check = of(machine_checks(state, kUsualPort), "shared memory");

  EXPECT_EQ(check.answer, Answer::no);
  EXPECT_THAT(check.next, HasSubstr("--shm-size"));
}

TEST(MachineChecks, SeeLimitsNamesAndPorts) {
  MachineState state = healthy_machine();
  state.open_files = state.open_files_hard = 1024;
  state.host_address.clear();
  state.port_problem = EADDRINUSE;
  state.container = {"docker"};
  state.container_cores = 2;

  const Checks checks = machine_checks(state, 29500, PortAsked::by_the_user);

  for (const char* const question :
       {"open files", "name means an address", "port 29500", "container's share"})
    EXPECT_EQ(of(checks, question).answer, Answer::no) << question;
}

TEST(MachineChecks, DoNotBlameUsualDefaults) {
  MachineState state = healthy_machine();
  state.open_files = 1024;
  state.open_files_hard = 524288;
  state.port_problem = EADDRINUSE;

  EXPECT_FALSE(any_no(machine_checks(state, kUsualPort)))
      << "a soft limit that can be raised, and a job that runs";
}

TEST(MachineChecks, AskForLockedMemoryOnlyWhereItMatters) {
  MachineState state = healthy_machine();
  state.locked_memory = 8ULL << 20U;

  EXPECT_EQ(of(machine_checks(state, kUsualPort), "locked memory").answer, Answer::unknown);
  state.has_infiniband = true;
  EXPECT_EQ(of(machine_checks(state, kUsualPort), "locked memory").answer, Answer::no);
}

TEST(MachineChecks, SeeHarmfulVariables) {
  MachineState state = healthy_machine();
  state.environment = {
      {"CUDA_LAUNCH_BLOCKING", "1"}, {"NCCL_P2P_DISABLE", "1"}, {"OMP_NUM_THREADS", "64"}};

  EXPECT_EQ(of(machine_checks(state, kUsualPort), "CUDA_LAUNCH_BLOCKING").answer, Answer::no);
  EXPECT_EQ(of(machine_checks(state, kUsualPort), "threads of a rank").answer, Answer::no)
      << "64 threads for two ranks on 64 cores";
  for (const Check& check : machine_checks(state, kUsualPort))
    EXPECT_THAT(check.question, ::testing::Not(HasSubstr("NCCL_P2P_DISABLE")))
        << "no GPUs here reach each other anyway";
  state.peer_to_peer = true;
  EXPECT_EQ(of(machine_checks(state, kUsualPort), "NCCL_P2P_DISABLE").answer, Answer::no);
}

TEST(MachineChecks, LeaveHarmlessVariablesAlone) {
  MachineState state = healthy_machine();
  state.environment = {
      {"CUDA_LAUNCH_BLOCKING", "0"}, {"NCCL_DEBUG", "INFO"}, {"OMP_NUM_THREADS", "8"}};

  EXPECT_FALSE(any_no(machine_checks(state, kUsualPort)));
}

TEST(NodeChecks, TellAClockWhereSomebodyAnswers) {
  const int port = free_port().value_or(0);
  std::atomic<bool> stop{false};
  std::atomic<int> asked{0};
  std::thread other([&] {
    EXPECT_TRUE(
        answer_nodes(port, [&] { return stop.load(); }, [&](const std::string&) { ++asked; }));
  });
  Checks checks;
  // it may take a moment until the other listens
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < until &&
         (checks.empty() || of(checks, "clock").answer == Answer::unknown))
    checks = ask_nodes({"localhost"}, port, std::chrono::seconds(2));
  stop = true;
  other.join();

  EXPECT_EQ(of(checks, "can be reached").answer, Answer::yes);
  EXPECT_EQ(of(checks, "clock").answer, Answer::yes) << of(checks, "clock").detail;
  EXPECT_GE(asked, 1);
}

TEST(NodeChecks, TellAPortWhereNobodyListensFromANameThatMeansNothing) {
  const Checks checks = ask_nodes({"localhost", "no-such-machine.invalid"}, free_port().value_or(0),
                                  std::chrono::seconds(2));

  EXPECT_EQ(of(checks, "localhost can be reached").answer, Answer::unknown)
      << "nobody listens, or a firewall rejects: both say the same";
  EXPECT_EQ(of(checks, "clock of localhost").answer, Answer::unknown);
  EXPECT_EQ(of(checks, "no-such-machine.invalid means").answer, Answer::no);
}

TEST(Bandwidth, IsHeldAgainstTheLinks) {
  const std::string lines =
      "{\"selftest\":\"nccl\",\"check\":\"version\",\"version\":\"2.28.9\"}\n"
      "{\"selftest\":\"nccl\",\"check\":\"all_reduce\",\"bytes\":4096,\"ranks\":8,\"right\":true,"
      "\"seconds\":0.00003,\"bus_bytes_s\":2e8}\n"
      "{\"selftest\":\"nccl\",\"check\":\"all_reduce\",\"bytes\":67108864,\"ranks\":8,\"right\":"
      "true,\"seconds\":0.0004,\"bus_bytes_s\":3e11}\n";

  EXPECT_EQ(of(checks_of_bandwidth(lines, "nccl", 3.6e11), "as fast as the links").answer,
            Answer::yes);
  EXPECT_EQ(of(checks_of_bandwidth(lines, "nccl", 9e11), "as fast as the links").answer,
            Answer::no);
  EXPECT_THAT(of(checks_of_bandwidth(lines, "nccl", 3.6e11), "sums up").detail,
              HasSubstr("NCCL 2.28.9"));
}

TEST(Bandwidth, OfWrongSumsIsANo) {
  const Checks checks = checks_of_bandwidth(
      "{\"check\":\"all_reduce\",\"ranks\":2,\"right\":false,\"seconds\":1,\"bus_bytes_s\":1}"
      "\nnoise\n{\"check\":\"other\"}\n",
      "gloo", std::nullopt);

  EXPECT_EQ(of(checks, "sums up right").answer, Answer::no);
  EXPECT_TRUE(checks_of_bandwidth("nothing of ours", "gloo", std::nullopt).empty());
}

TEST(Ddp, EachPartIsAnAnswer) {
  const Checks checks = checks_of_ddp(
      "{\"check\":\"collectives\",\"ranks\":2,\"right\":true}\n{\"check\":\"shards\",\"ranks\":2,"
      "\"right\":true}\n{\"check\":\"step\",\"ranks\":2,\"right\":false}\n");

  ASSERT_EQ(checks.size(), 3U);
  EXPECT_EQ(checks[0].answer, Answer::yes);
  EXPECT_EQ(checks[2].answer, Answer::no);
}

TEST(Communication, LeavesGpusAloneThatAreInUse) {
  CommunicationOptions options;
  options.launcher = options.trainer = "/bin/false";
  options.gpus = 8;
  options.in_use = "process 4242 holds a GPU";

  const Checks checks = communication_checks(options);

  EXPECT_EQ(of(checks, "NCCL").answer, Answer::unknown);
  EXPECT_THAT(of(checks, "NCCL").detail, HasSubstr("process 4242"));
}

TEST(Communication, IsUnknownWithoutTheTrainer) {
  CommunicationOptions options;
  options.why_no_trainer = "this build has no lockstep-train";

  const Checks checks = communication_checks(options);

  ASSERT_EQ(checks.size(), 1U);
  EXPECT_EQ(checks[0].answer, Answer::unknown);
  EXPECT_THAT(checks[0].detail, HasSubstr("this build has no lockstep-train"));
}

}  // namespace
}  // namespace lockstep
