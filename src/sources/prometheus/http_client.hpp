// Asks one HTTP server questions, with limits on time and size. Tokens and passwords appear in no
// message.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "lockstep/result.hpp"
#include "sources/prometheus/prometheus_options.hpp"

namespace lockstep {

class HttpClient {
 public:
  // `url`: http:// or https://, host, port, and a path before which nothing is put.
  static Result<HttpClient> open(const std::string& url, const PrometheusOptions& options);
  ~HttpClient();
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;

  // The body of a GET below the base. An answer of 400 and more is given too where it is JSON:
  // Prometheus explains itself there.
  Result<std::string> get(const std::string& path,
                          const std::multimap<std::string, std::string>& parameters);

  const std::string& base() const;  // without user and password

 private:
  struct Connection;
  explicit HttpClient(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> connection_;
};

}  // namespace lockstep
