// hase size: the cheapest cluster of given types that meets a trace's deadlines or a makespan.
#include <fmt/core.h>
#include <unistd.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/cli/commands.h"
#include "apps/sizing.h"

namespace hase::cli {
namespace {

struct Flags {
  apps::SizeQuestion question;
  std::vector<std::string> prices;  // TYPE=DOLLARS
  std::optional<double> makespan_s, miss;
  bool json = false;
};

Status SetPrices(const Flags& flags, apps::SizeQuestion& q) {
  q.prices.assign(q.types.size(), 0);
  for (const auto& text : flags.prices) {
    const size_t equals = text.find('=');
    const auto type = std::ranges::find(q.types, text.substr(0, equals));
    double price = 0;
    bool whole = false;
    if (equals != std::string::npos) {
      const char* const last = text.data() + text.size();
      const auto [end, code] = std::from_chars(text.data() + equals + 1, last, price);
      whole = code == std::errc() && end == last;
    }
    if (type == q.types.end() || !whole || !(price > 0 && price <= 1e9)) {
      return Usage(fmt::format("--price {}: TYPE=DOLLARS_PER_HOUR of one of --types", text));
    }
    q.prices[static_cast<size_t>(type - q.types.begin())] = price;
  }
  return {};
}

Status SetTarget(const Flags& flags, apps::SizeTarget& target) {
  if (flags.makespan_s && flags.miss) return Usage("--makespan and --miss exclude each other");
  if (flags.makespan_s && !(*flags.makespan_s > 0 && *flags.makespan_s <= 1e9)) {
    return Usage(fmt::format("--makespan {:g}: seconds above 0, at most 1e9", *flags.makespan_s));
  }
  if (flags.miss && !(*flags.miss >= 0 && *flags.miss <= 1)) {
    return Usage(fmt::format("--miss {:g}: a fraction between 0 and 1", *flags.miss));
  }
  target.makespan_s = flags.makespan_s.value_or(0);
  target.miss = flags.miss.value_or(0);
  return {};
}

std::string Named(const std::vector<std::string>& types, const std::vector<int>& counts) {
  std::string text;
  for (size_t t = 0; t < counts.size(); ++t) {
    if (counts[t] == 0) continue;
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", counts[t], types[t]);
  }
  return text.empty() ? "nothing" : text;
}

Result<int> Size(const Flags& flags) {
  apps::SizeQuestion q = flags.question;
  HASE_RETURN_IF_ERROR(SetTarget(flags, q.target));
  HASE_RETURN_IF_ERROR(SetPrices(flags, q));
  const bool terminal = isatty(2);
  HASE_ASSIGN_OR_RETURN(
      const auto a, apps::FindCheapest(q, [&](const std::vector<int>& counts, double price) {
        if (terminal) {
          fmt::print(stderr, "\r\033[K{:.2f} per hour: {}", price, Named(q.types, counts));
        }
      }));
  if (terminal) fmt::print(stderr, "\r\033[K");
  if (flags.json) {
    nlohmann::ordered_json out = {{"found", a.found}, {"policy", q.policy}, {"world", q.sim.world}};
    out["devices"] = nlohmann::ordered_json::array();
    for (size_t t = 0; t < a.counts.size(); ++t) {
      out["devices"].push_back({{"type", a.types[t]}, {"count", a.counts[t]}});
    }
    out["cost_per_hour"] = a.cost_per_hour;
    out["makespan_s"] = a.makespan_s;
    out["deadline_miss"] = a.deadline_miss;
    out["lower_bound_s"] = a.lower_bound_s;
    out["clusters"] = {{"looked_at", a.looked_at},
                       {"ruled_out_by_bound", a.ruled_out},
                       {"simulated", a.simulated}};
    fmt::print("{}\n", out.dump(1));
  } else if (a.found) {
    fmt::print("{} for {:.2f} dollars per hour\n", Named(a.types, a.counts), a.cost_per_hour);
    fmt::print("makespan {:.1f} s, deadlines missed {:.1f} %, lower bound {:.1f} s\n", a.makespan_s,
               a.deadline_miss * 100, a.lower_bound_s);
  } else {
    fmt::print("no cluster of at most {} of these cards meets it\n", q.most);
  }
  if (!flags.json) {
    fmt::print("{} clusters looked at: {} ruled out by their bound, {} simulations\n", a.looked_at,
               a.ruled_out, a.simulated);
  }
  return a.found ? 0 : 3;
}

}  // namespace

Action SetUpSize(CLI::App& command) {
  auto flags = std::make_shared<Flags>();  // shared: the action outlives this function
  auto& q = flags->question;
  command.add_option("--types", q.types, "types of card to choose from: T4,L4,A100-SXM4-40GB")
      ->delimiter(',')
      ->required();
  command.add_option("--jobs", q.sim.jobs, "jobs.csv or jobs.jsonl");
  command.add_option("--generate", q.sim.generate,
                     "instead of --jobs, as for simulate; sized on one card of each type");
  command.add_option("--makespan", flags->makespan_s, "seconds in which everything must be done");
  command.add_option("--miss", flags->miss,
                     "without --makespan: part of the deadlines that may be missed (0)");
  command.add_option("--most", q.most, "cards in all (64)")->check(CLI::Range(1, 1000));
  command.add_option("--price", flags->prices, "TYPE=DOLLARS_PER_HOUR in place of the catalogue's")
      ->delimiter(',');
  command.add_option("--policy", q.policy, "the policy that will run it (hase)");
  command.add_option("--world", q.sim.world, "W2 residuals, W3 other law (default)");
  command.add_option("--seeds", q.seeds, "it must hold for all of them: 1,2,3")
      ->delimiter(',')
      ->check(NoMinus());
  command.add_option("--estimates", q.sim.estimates, "estimates.csv in place of the predictor");
  command.add_flag("--json", flags->json, "Print JSON");
  return [flags]() -> Result<int> { return Size(*flags); };
}

}  // namespace hase::cli
