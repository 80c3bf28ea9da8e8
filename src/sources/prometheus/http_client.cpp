#include "sources/prometheus/http_client.hpp"

#include <fmt/format.h>
#include <httplib.h>

#include <charconv>
#include <utility>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/text.hpp"

namespace lockstep {
namespace {

// 1,000 GPUs an hour long at 15 s are 6 MB a metric
constexpr std::size_t kLargestAnswer = 256U << 20U;
constexpr std::size_t kLargestToken = 16U << 10U;

struct Address {
  std::string scheme_host_port;
  std::string path;
  std::string user;
  std::string password;
};

// What people copy from the browser's address line is taken down to the base.
std::string without_page(std::string path) {
  path = path.substr(0, path.find_first_of("?#"));
  for (const std::string_view page :
       {"/api/v1/query_range", "/api/v1/query", "/api/v1", "/graph", "/query", "/targets"})
    if (path.ends_with(page)) {
      path.resize(path.size() - page.size());
      break;
    }
  while (path.ends_with('/')) path.pop_back();
  return path;
}

// "p%40ss" is "p@ss": a password may have letters that mean something in an address.
std::string decoded(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned int letter = 0;
    const bool is_code =
        text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, letter, 16).ptr ==
            text.data() + i + 3;
    plain += is_code ? static_cast<char>(letter) : text[i];
    if (is_code) i += 2;
  }
  return plain;
}

Result<Address> parse(const std::string& url) {
  const auto wrong = [&](const char* why) {
    return usage_error(
        fmt::format("this is no address of a Prometheus server ({}): {}", why,
                    printable(url.substr(0, url.find('@') == std::string::npos ? 80 : 8))),
        "write http://HOST:9090 or https://HOST/prometheus");
  };
  const auto scheme_end = url.find("://");
  if (scheme_end == std::string::npos) return wrong("no scheme");
  const std::size_t host_begin = scheme_end + 3;
  const std::size_t path_begin = std::min(url.find('/', host_begin), url.size());
  std::string authority = url.substr(host_begin, path_begin - host_begin);
  Address address;
  if (const auto at = authority.rfind('@'); at != std::string::npos) {
    const std::string who = authority.substr(0, at);
    address.user = decoded(who.substr(0, who.find(':')));
    if (const auto colon = who.find(':'); colon != std::string::npos)
      address.password = decoded(who.substr(colon + 1));
    authority.erase(0, at + 1);
  }
  if (authority.empty() || authority.find_first_of(" \t\r\n\"'") != std::string::npos)
    return wrong("no host");
  if (const auto colon = authority.rfind(':');
      colon != std::string::npos && authority.find(']', colon) == std::string::npos) {
    const auto port = parse_integer(std::string_view(authority).substr(colon + 1));
    if (!port || *port < 1 || *port > 65535) return wrong("the port is no number from 1 to 65535");
  }
  address.scheme_host_port = url.substr(0, host_begin) + authority;
  address.path = without_page(url.substr(path_begin));
  return address;
}

Result<std::string> read_token(const std::string& file) {
  const auto text = read_small_file(file, kLargestToken);
  if (!text) return cannot_read(file, errno);
  const std::string token(trim(text->substr(0, text->find('\n'))));
  if (token.empty())
    return usage_error(fmt::format("{} holds no token", printable(file)),
                       "put the token on its first line");
  return token;
}

Error explain_failure(httplib::Error error, const std::string& base,
                      std::chrono::nanoseconds timeout) {
  switch (error) {
    case httplib::Error::ConnectionTimeout:
    case httplib::Error::Read:
      return {fmt::format("{} did not answer within {}", printable(base), format_duration(timeout)),
              "try a shorter --window, a narrower --selector or a longer --timeout"};
    case httplib::Error::SSLConnection:
    case httplib::Error::SSLLoadingCerts:
    case httplib::Error::SSLServerVerification:
      return {fmt::format("no safe connection to {}: {}", printable(base),
                          error == httplib::Error::SSLServerVerification
                              ? "its certificate is not trusted"
                              : "the TLS handshake failed"),
              "name the certificate of its issuer with --ca-file FILE; http:// where the server "
              "has no TLS"};
    default:
      return {fmt::format("cannot reach {}: connection refused, or no such host", printable(base)),
              fmt::format("see whether it runs: curl {}/-/ready", printable(base))};
  }
}

}  // namespace

struct HttpClient::Connection {
  explicit Connection(const std::string& scheme_host_port) : client(scheme_host_port) {}
  httplib::Client client;
  std::string base;
  std::string path;
  std::chrono::nanoseconds timeout{};
};

HttpClient::HttpClient(std::unique_ptr<Connection> connection)
    : connection_(std::move(connection)) {}
HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;

const std::string& HttpClient::base() const { return connection_->base; }

Result<HttpClient> HttpClient::open(const std::string& url, const PrometheusOptions& options) {
  auto address = TRY(parse(url));
  auto connection = std::make_unique<Connection>(address.scheme_host_port);
  httplib::Client& client = connection->client;
  if (!client.is_valid())
    return usage_error(fmt::format("this is no address of a Prometheus server: {}",
                                   printable(address.scheme_host_port)),
                       "write http://HOST:9090 or https://HOST/prometheus");
  connection->base = address.scheme_host_port + address.path;
  connection->path = address.path;
  connection->timeout = options.timeout;
  const auto seconds = std::chrono::duration_cast<std::chrono::microseconds>(options.timeout);
  client.set_connection_timeout(seconds);
  client.set_read_timeout(seconds);
  client.set_write_timeout(seconds);
  client.set_keep_alive(true);
  client.set_follow_location(false);  // a token goes to no other host
  client.enable_server_certificate_verification(true);
  if (!options.ca_file.empty()) {
    if (!read_small_file(options.ca_file)) return cannot_read(options.ca_file, errno);
    client.set_ca_cert_path(options.ca_file);
  }
  if (!options.token_file.empty()) {
    auto token = TRY(read_token(options.token_file));
    if (url.starts_with("http://"))
      say("lockstep: the token is sent without TLS: anybody on the way can read it\n");
    client.set_bearer_token_auth(token);
  } else if (!address.user.empty()) {
    client.set_basic_auth(address.user, address.password);
  }
  return HttpClient(std::move(connection));
}

Result<std::string> HttpClient::get(const std::string& path,
                                    const std::multimap<std::string, std::string>& parameters) {
  httplib::Params wanted;
  for (const auto& [name, value] : parameters) wanted.emplace(name, value);
  std::string body;
  bool too_large = false;
  int status = 0;
  std::string location;
  std::string type;
  // for all of it: a trickle of bytes never ends by itself
  const auto until = monotonic_now() + connection_->timeout;
  bool too_late = false;
  const httplib::Headers plain = {{"Accept", "application/json"}};
  auto result = connection_->client.Get(
      httplib::append_query_params(connection_->path + path, wanted), plain,
      [&](const httplib::Response& response) {
        status = response.status;
        location = response.get_header_value("Location");
        type = response.get_header_value("Content-Type");
        return true;
      },
      [&](const char* bytes, std::size_t count) {
        too_large = body.size() + count > kLargestAnswer;
        too_late = monotonic_now() > until;
        if (!too_large) body.append(bytes, count);
        return !too_large && !too_late;
      });
  if (too_large)
    return Error{fmt::format("the answer of {} is larger than {}", printable(base()),
                             format_bytes(kLargestAnswer)),
                 "ask for less: --selector 'cluster=\"a\"', or a shorter --window"};
  if (too_late) return explain_failure(httplib::Error::Read, base(), connection_->timeout);
  if (!result) return explain_failure(result.error(), base(), connection_->timeout);
  if (status == 401 || status == 403)
    return Error{fmt::format("{} refuses: HTTP {}", printable(base()), status),
                 "give a token in a file: --token-file FILE"};
  if (status >= 300 && status < 400)
    return Error{fmt::format("{} sends elsewhere: {}", printable(base()), printable(location)),
                 "give that address; lockstep takes a token to no other host"};
  if (status >= 400 && type.find("json") == std::string::npos)
    return Error{fmt::format("{}{} answers with HTTP {}", printable(base()), path, status),
                 "give the base address of a Prometheus server, with its path if it has one: "
                 "http://HOST:9090"};
  return body;
}

}  // namespace lockstep
