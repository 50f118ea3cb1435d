// dcgm_exporter: NVIDIA's Prometheus exporter, read over HTTP.
//
// The page says how its counters stand but not since when: the exporter samples every 30 s by
// default. So a reading's age is taken from its timestamp where it has one; else from when the page
// last changed: after a change seen at a poll it is at most the time since the poll before. The
// first page's age is unknown and counts as the exporter's whole interval.
//
// With sharing, each tenant's pod repeats the card's own value under its own labels; such copies
// are one reading, their pods its tenants. Two different values for one device are contradictory.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cluster/telemetry/prometheus.h"
#include "cluster/telemetry/snapshot.h"

namespace hase::cluster::telemetry {

// The page as a snapshot. `now_s`: Unix time; `age_s`: of readings without a timestamp.
Snapshot ReadDcgmPage(const PrometheusPage& page, double now_s, double age_s, double stale_after_s);

struct DcgmOptions {
  std::string url = "http://localhost:9400/metrics";
  double interval_s = 30;  // the exporter's collection interval
  double stale_after_s = 5;
  double timeout_s = 2;
};

// How a page is fetched and what time it is: HTTP and the system clock, or a test's own.
using FetchPage = std::function<Result<std::string>()>;
using UnixTime = std::function<double()>;

std::unique_ptr<Source> MakeDcgmExporter(const DcgmOptions& options);
std::unique_ptr<Source> MakeDcgmExporter(const DcgmOptions& options, FetchPage fetch, UnixTime now);

// GET of http://host:port/path; errors name the URL. Pages above 64 MiB are refused.
Result<std::string> HttpGet(const std::string& url, double timeout_s);

}  // namespace hase::cluster::telemetry
