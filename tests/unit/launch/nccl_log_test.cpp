// NCCL's INFO log in a few lines.
#include "launch/logs/nccl_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::HasSubstr;

// The forms that NCCL 2.19 to 2.28 write, with made-up hosts.
const char* const kLog =
    "node0:100:100 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0\n"
    "node0:100:100 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\n"
    "node0:100:131 [0] NCCL INFO NET/IB : No device found.\n"
    "node0:100:131 [0] NCCL INFO Using network Socket\n"
    "node0:100:131 [0] NCCL INFO ncclCommInitRankConfig comm 0x55d0 rank 0 nranks 2 cudaDev 0 "
    "nvmlDev 0 busId 3b000 commId 0x1 - Init START\n"
    "node0:100:131 [0] NCCL INFO Channel 00/02 :    0   1\n"
    "node0:100:131 [0] NCCL INFO Channel 01/02 :    0   1\n"
    "node0:100:131 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n"
    "node0:100:131 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n"
    "node0:100:131 [0] NCCL INFO Connected all rings\n"
    "node0:100:131 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote "
    "peer\n"
    "node0:100:131 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote "
    "peer\n";

TEST(NcclLog, IsSummarised) {
  NcclFacts facts;
  read_nccl_log(kLog, facts);

  EXPECT_EQ(facts.version, "2.28.9+cuda13.0");
  EXPECT_EQ(facts.network, "Socket");
  EXPECT_EQ(facts.channels, 2);
  EXPECT_EQ(facts.ring, "0 1");
  EXPECT_EQ(facts.transports, (std::map<std::string, int>{{"P2P/CUMEM", 1}, {"SHM/direct", 1}}));
  EXPECT_EQ(facts.warnings.size(), 1U) << "each once";
  EXPECT_THAT(
      in_words(facts),
      HasSubstr("NCCL 2.28.9+cuda13.0, communicators of 2 ranks, 2 channels, network Socket"));
  EXPECT_THAT(in_words(facts), HasSubstr("explain C405"));
}

TEST(NcclLog, OfAJobWithoutNcclIsSilent) {
  NcclFacts facts;
  read_nccl_log("hello\nloss 3.1\n", facts);
  EXPECT_EQ(in_words(facts), "");
}

}  // namespace
}  // namespace lockstep
