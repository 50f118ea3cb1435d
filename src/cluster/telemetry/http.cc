// The one file that includes cpp-httplib.
#include <fmt/core.h>
#include <httplib.h>

#include "cluster/telemetry/dcgm_exporter.h"

namespace hase::cluster::telemetry {

Result<std::string> HttpGet(const std::string& url, double timeout_s) {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) {
    return Usage(fmt::format("{}: only http:// addresses can be read", url));
  }
  const size_t slash = url.find('/', kScheme.size());
  httplib::Client client(url.substr(0, slash));
  const auto whole = static_cast<time_t>(timeout_s);
  const auto micros = static_cast<time_t>((timeout_s - static_cast<double>(whole)) * 1e6);
  client.set_connection_timeout(whole, micros);
  client.set_read_timeout(whole, micros);
  std::string body;
  constexpr size_t kLimit = size_t{64} << 20;
  const auto response = client.Get(slash == std::string::npos ? "/" : url.substr(slash),
                                   [&](const char* part, size_t size) {
                                     if (body.size() + size > kLimit) return false;
                                     body.append(part, size);
                                     return true;
                                   });
  if (!response) {
    return Unavailable(fmt::format("{}: no answer ({}); is the exporter running there?", url,
                                   httplib::to_string(response.error())));
  }
  if (response->status != 200) {
    return Unavailable(fmt::format("{}: answers with status {}", url, response->status));
  }
  return body;
}

}  // namespace hase::cluster::telemetry
