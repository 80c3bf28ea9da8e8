// NCCL's RAS: its answers, and a server that answers, is silent, or is somebody else.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "sources/ras/ras_client.hpp"
#include "sources/ras/ras_report.hpp"
#include "sources/ras/ras_watch.hpp"
#include "support/paths.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// As NCCL 2.28.9 writes it (docs/userguide, RAS, JSON output), shortened.
std::string answer_of(const std::string& hash, int first_count, int second_count) {
  return R"({"nccl_version":"2.28.9","communicators_count":1,"communicators":[{"hash":")" + hash +
         R"(","size":3,"ranks_count":2,"missing_ranks_count":1,"ranks":[
{"rank":1,"host":"10.0.0.1","pid":101,"cuda_dev":0,"nvml_dev":1,"status":{"init_state":0,"async_error":0,"finalize_called":false,"destroy_flag":false,"abort_flag":false},"collective_counts":{"Broadcast":2,"AllReduce":)" +
         std::to_string(second_count) + R"(}},
{"rank":0,"host":"10.0.0.1","pid":100,"cuda_dev":0,"nvml_dev":0,"status":{"init_state":0,"async_error":0},"collective_counts":{"Broadcast":2,"AllReduce":)" +
         std::to_string(first_count) + R"(}}],
"missing_ranks":[{"rank":2,"host":"10.0.0.2","pid":102,"cuda_dev":0,"nvml_dev":0,"status":{"unresponsive":true,"considered_dead":true}}]}],"ras":{"collection_time_sec":0.0,"timeouts_count":0}})";
}

// Listens on a port of its own and treats each caller as `serve` does.
class Server {
 public:
  using Serve = std::function<void(int connection, int number)>;
  explicit Server(Serve serve) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(socket_, 8), 0);
    socklen_t size = sizeof address;
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, serve = std::move(serve)] {
      for (int number = 0;; ++number) {
        const int connection = ::accept(socket_, nullptr, nullptr);
        if (connection < 0) return;
        serve(connection, number);
        ::close(connection);
      }
    });
  }
  ~Server() {
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    ::close(socket_);
  }
  RasAddress address() const { return {"127.0.0.1", std::to_string(port_)}; }

 private:
  int socket_;
  int port_ = 0;
  std::thread thread_;
};

std::string line_from(int connection) {
  std::string line;
  char letter = 0;
  while (::recv(connection, &letter, 1, 0) == 1 && letter != '\n') line += letter;
  return line;
}
void say(int connection, const std::string& words) {
  (void)!::send(connection, words.data(), words.size(), MSG_NOSIGNAL);
}

// The dialogue that NCCL's own client has.
void serve_as_nccl(int connection, const std::string& answer) {
  EXPECT_EQ(line_from(connection), "CLIENT PROTOCOL 2");
  say(connection, "SERVER PROTOCOL 2\n");
  EXPECT_EQ(line_from(connection), "SET FORMAT json");
  say(connection, "OK\n");
  EXPECT_EQ(line_from(connection), "STATUS");
  say(connection, answer);
}

TEST(RasReport, NamesRanksThatAnswerAndThoseThatDoNot) {
  const auto census = parse_ras_json(answer_of("0xab", 7, 6));

  ASSERT_TRUE(census);
  EXPECT_EQ(census->nccl_version, "2.28.9");
  ASSERT_EQ(census->communicators.size(), 1U);
  const Communicator& one = census->communicators.front();
  ASSERT_EQ(one.ranks.size(), 3U);
  EXPECT_EQ(one.ranks[0].rank, 0);
  EXPECT_EQ(one.ranks[0].counts.at("AllReduce"), 7);
  EXPECT_EQ(one.ranks[1].gpu, 1);
  EXPECT_FALSE(one.ranks[2].answers);
  EXPECT_TRUE(one.ranks[2].dead);
}

// Rank 1 slept where rank 0 went on (tests/probes/two_ranks_of_nccl.py, NCCL 2.31.2 on an H200).
TEST(RasReport, CountsTheCollectivesOfRanksThatStandApart) {
  std::ifstream stream(std::filesystem::path(testing::source_tree()) /
                       "tests/recordings/h200/ras-two-ranks-apart.json");
  const std::string text{std::istreambuf_iterator<char>(stream), {}};

  const auto census = parse_ras_json(text);

  ASSERT_TRUE(census);
  EXPECT_EQ(census->nccl_version, "2.31.2");
  ASSERT_EQ(census->communicators.size(), 1U);
  ASSERT_EQ(census->communicators.front().ranks.size(), 2U);
  EXPECT_EQ(census->communicators.front().ranks[0].counts.at("AllReduce"), 321);
  EXPECT_EQ(census->communicators.front().ranks[1].counts.at("AllReduce"), 233);
}

TEST(RasReport, AnythingElseIsNoAnswer) {
  EXPECT_FALSE(parse_ras_json(""));
  EXPECT_FALSE(parse_ras_json("Job summary\n==========="));
  EXPECT_FALSE(parse_ras_json("{\"communicators\":7}"));
}

TEST(RasClient, HasTheDialogueOfNcclsOwn) {
  const Server server(
      [](int connection, int) { serve_as_nccl(connection, answer_of("0xab", 7, 7)); });

  const auto census = ask_ras(server.address(), 2s);

  ASSERT_TRUE(census) << census.error().what;
  EXPECT_EQ(census->communicators.front().hash, "0xab");
}

// tests/recordings/h200/ras-dialogue.txt: what was asked begins with "> ", the rest was said.
TEST(RasClient, UnderstandsWhatNcclOnAnH200Said) {
  std::ifstream stream(std::filesystem::path(testing::source_tree()) /
                       "tests/recordings/h200/ras-dialogue.txt");
  std::vector<std::pair<std::string, std::string>> dialogue;
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("> "))
      dialogue.emplace_back(line.substr(2), "");
    else if (!dialogue.empty() && !line.empty())
      dialogue.back().second += line + "\n";
  }
  ASSERT_EQ(dialogue.size(), 3U);
  const Server server([&](int connection, int) {
    for (const auto& [asked, said] : dialogue) {
      EXPECT_EQ(line_from(connection), asked);
      say(connection, said);
    }
  });

  const auto census = ask_ras(server.address(), 2s);

  ASSERT_TRUE(census) << census.error().what;
  EXPECT_EQ(census->nccl_version, "2.28.9");
  ASSERT_EQ(census->communicators.size(), 1U);
  ASSERT_EQ(census->communicators.front().ranks.size(), 1U);
  EXPECT_TRUE(census->communicators.front().ranks.front().answers);
  EXPECT_EQ(census->communicators.front().ranks.front().counts.at("AllReduce"), 0)
      << "one rank: NCCL returns before it counts";
}

TEST(RasClient, JoinsTheCommunicatorsOfTwoJobsThatListenAtOnePort) {
  const Server server([](int connection, int number) {
    serve_as_nccl(connection, answer_of(number % 2 == 0 ? "0xa" : "0xb", 7, 7));
  });

  const auto census = ask_all_ras(server.address(), 5s);

  ASSERT_TRUE(census);
  EXPECT_EQ(census->communicators.size(), 2U);
}

TEST(RasClient, NobodyListeningIsNoErrorThatLasts) {
  const auto begin = std::chrono::steady_clock::now();
  const auto census = ask_ras({"127.0.0.1", "1"}, 5s);

  ASSERT_FALSE(census);
  EXPECT_THAT(census.error().what, HasSubstr("no NCCL listens"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
}

TEST(RasClient, ASilentServerIsGivenUp) {
  const Server server([](int connection, int) {
    line_from(connection);
    std::this_thread::sleep_for(600ms);
  });

  const auto census = ask_ras(server.address(), 200ms);

  ASSERT_FALSE(census);
  EXPECT_THAT(census.error().what, HasSubstr("did not answer within 200 ms"));
}

TEST(RasClient, SomebodyElsesServerIsNamed) {
  const Server server([](int connection, int) {
    say(connection, "220 mail ready\n");
    line_from(connection);
  });

  const auto census = ask_ras(server.address(), 1s);

  ASSERT_FALSE(census);
  EXPECT_THAT(census.error().what, HasSubstr("is no NCCL"));
}

TEST(RasClient, AnOlderNcclThatHasNoJsonIsNamed) {
  const Server server([](int connection, int) {
    line_from(connection);
    say(connection, "SERVER PROTOCOL 2\n");
    line_from(connection);
    say(connection, "ERROR: Unknown command SET FORMAT json\n");
  });

  const auto census = ask_ras(server.address(), 1s);

  ASSERT_FALSE(census);
  EXPECT_THAT(census.error().what, HasSubstr("only as text"));
}

TEST(RasAddress, IsReadAsNcclReadsIt) {
  EXPECT_EQ(ras_address("").port, "28028");
  EXPECT_EQ(ras_address("localhost:4000").host, "localhost");
  EXPECT_EQ(ras_address("localhost:4000").port, "4000");
  EXPECT_EQ(ras_address(":4000").host, "127.0.0.1");
  EXPECT_EQ(ras_address("[::1]:4000").host, "::1");
  EXPECT_EQ(ras_address("myhost").host, "myhost");
  EXPECT_EQ(ras_address("myhost").port, "28028");
}

TEST(RasWatch, EndsAtOnceThoughAnAnswerIsWaitedFor) {
  const Server server([](int connection, int) {
    line_from(connection);
    std::this_thread::sleep_for(800ms);
  });
  const auto begin = std::chrono::steady_clock::now();
  {
    RasWatch watch(server.address());
    std::this_thread::sleep_for(50ms);
    EXPECT_FALSE(watch.answered());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 500ms);
}

}  // namespace
}  // namespace lockstep
