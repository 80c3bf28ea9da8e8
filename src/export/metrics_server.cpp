#include "export/metrics_server.hpp"

#include <fmt/format.h>
#include <httplib.h>
#include <pthread.h>

#include <thread>
#include <utility>

#include "base/text.hpp"

namespace lockstep {
namespace {

constexpr const char* kTextFormat = "text/plain; version=0.0.4; charset=utf-8";
// Prometheus, a second one, a person, and one that is slow
constexpr std::size_t kThreads = 4;
constexpr std::size_t kLargestRequest = 8192;  // nobody has anything to send here
constexpr int kPatienceS = 5;

constexpr const char* kFrontPage =
    "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>lockstep "
    "exporter</title></head><body><h1>lockstep exporter</h1>"
    "<p><a href=\"/metrics\">metrics</a>, <a href=\"/-/ready\">ready</a></p></body></html>\n";

}  // namespace

struct MetricsServer::Running {
  httplib::Server server;
  int port = 0;
  std::thread thread;
};

Result<ListenAddress> parse_listen_address(std::string_view text) {
  const auto wrong = [&] {
    return usage_error(
        fmt::format("cannot listen on '{}'", printable(text)),
        "write HOST:PORT, such as 127.0.0.1:9417, [::1]:9417 or :9417 for all interfaces");
  };
  ListenAddress address;
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong();
  std::string_view host = text.substr(0, colon);
  const auto port = parse_integer(text.substr(colon + 1));
  if (!port || *port < 0 || *port > 65535) return wrong();
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string_view::npos)
    return wrong();
  address.host = host.empty() ? "0.0.0.0" : std::string(host);
  address.port = static_cast<int>(*port);
  return address;
}

Result<MetricsServer> MetricsServer::start(const ListenAddress& address, MetricsPages pages) {
  auto running = std::make_unique<Running>();
  httplib::Server& server = running->server;
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  server.set_payload_max_length(kLargestRequest);
  server.set_tcp_nodelay(true);  // else a scrape waits 40 ms for an acknowledgement
  server.set_read_timeout(kPatienceS);
  server.set_write_timeout(kPatienceS);
  server.Get("/metrics", [metrics = std::move(pages.metrics)](const httplib::Request&,
                                                              httplib::Response& response) {
    response.set_content(metrics(), kTextFormat);
  });
  server.Get("/-/ready", [why_not = std::move(pages.why_not_ready)](const httplib::Request&,
                                                                    httplib::Response& response) {
    const std::string reason = why_not();
    response.status = reason.empty() ? 200 : 503;
    response.set_content(reason.empty() ? "ready\n" : reason + "\n", "text/plain; charset=utf-8");
  });
  server.Get("/-/healthy", [](const httplib::Request&, httplib::Response& response) {
    response.set_content("healthy\n", "text/plain; charset=utf-8");
  });
  server.Get("/", [](const httplib::Request&, httplib::Response& response) {
    response.set_content(kFrontPage, "text/html; charset=utf-8");
  });
  server.set_error_handler([](const httplib::Request&, httplib::Response& response) {
    if (response.body.empty())
      response.set_content(
          fmt::format("{}: this serves GET /metrics and GET /-/ready\n", response.status),
          "text/plain; charset=utf-8");
  });
  // The listening socket alone: SO_REUSEADDR lets a restart follow at once, and two exporters never
  // share a port (cpp-httplib's default would).
  server.set_socket_options([](int socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  errno = 0;
  running->port = address.port == 0 ? server.bind_to_any_port(address.host)
                  : server.bind_to_port(address.host, address.port) ? address.port
                                                                    : -1;
  if (running->port <= 0) {
    const int reason = errno;
    if (reason == EADDRINUSE)
      return Error{fmt::format("port {} is in use on {}", address.port, printable(address.host)),
                   "see who holds it: ss -ltnp; or choose another: --listen 127.0.0.1:9418"};
    return Error{fmt::format("cannot listen on {}:{}{}{}", printable(address.host), address.port,
                             reason != 0 ? ": " : "", reason != 0 ? std::strerror(reason) : ""),
                 "use an address of this machine: --listen 127.0.0.1:9417"};
  }
  running->thread = std::thread([raw = running.get()] {
    ::pthread_setname_np(::pthread_self(), "lockstep-http");
    raw->server.listen_after_bind();
  });
  // Stopping a server that does not run yet would be lost on it.
  for (int waited_ms = 0; !server.is_running() && waited_ms < kPatienceS * 1000; ++waited_ms)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return MetricsServer(std::move(running));
}

MetricsServer::MetricsServer(std::unique_ptr<Running> running) : running_(std::move(running)) {}
MetricsServer::MetricsServer(MetricsServer&&) noexcept = default;

MetricsServer::~MetricsServer() {
  if (!running_) return;
  running_->server.stop();
  running_->thread.join();
}

int MetricsServer::port() const { return running_->port; }

}  // namespace lockstep
