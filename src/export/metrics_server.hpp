// Answers GET /metrics and GET /-/ready over HTTP, on threads of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "lockstep/result.hpp"

namespace lockstep {

struct ListenAddress {
  std::string host = "127.0.0.1";
  int port = 9417;  // 0: any that is free
};

// "127.0.0.1:9417", "[::1]:9417", "node3:9417", ":9417" for all interfaces.
Result<ListenAddress> parse_listen_address(std::string_view text);

struct MetricsPages {
  std::function<std::string()> metrics;        // called on the server's threads
  std::function<std::string()> why_not_ready;  // empty: ready
};

class MetricsServer {
 public:
  static Result<MetricsServer> start(const ListenAddress& address, MetricsPages pages);
  ~MetricsServer();
  MetricsServer(MetricsServer&&) noexcept;
  MetricsServer& operator=(MetricsServer&&) = delete;

  int port() const;

 private:
  struct Running;
  explicit MetricsServer(std::unique_ptr<Running> running);
  std::unique_ptr<Running> running_;
};

}  // namespace lockstep
