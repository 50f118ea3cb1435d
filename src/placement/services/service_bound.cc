#include "placement/services/service_bound.h"

#include <Cbc_C_Interface.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

namespace hase::placement {
namespace {

constexpr int kExactStep = 4;  // every fourth share step: 10 %

// A programme that is written column by column and row by row.
class Programme {
 public:
  Programme() : model_(Cbc_newModel(), Cbc_deleteModel) { Cbc_setLogLevel(model_.get(), 0); }
  int Column(double upper, double objective, bool integer) {
    Cbc_addCol(model_.get(), "", 0, upper, objective, integer ? 1 : 0, 0, nullptr, nullptr);
    return columns_++;
  }
  void Row(const std::vector<std::pair<int, double>>& terms, char sense, double right) {
    std::vector<int> columns;
    std::vector<double> factors;
    for (const auto& [column, factor] : terms) {
      columns.push_back(column);
      factors.push_back(factor);
    }
    Cbc_addRow(model_.get(), "", static_cast<int>(columns.size()), columns.data(), factors.data(),
               sense, right);
  }
  // The optimum; nullopt if there is none.
  std::optional<double> Solve(bool maximise) {
    Cbc_setObjSense(model_.get(), maximise ? -1 : 1);
    Cbc_solve(model_.get());
    if (!Cbc_isProvenOptimal(model_.get())) return std::nullopt;
    return Cbc_getObjValue(model_.get());
  }

 private:
  std::unique_ptr<Cbc_Model, void (*)(Cbc_Model*)> model_;
  int columns_ = 0;
};

constexpr double kUnbounded = 1e12;

struct Group {
  DeviceTypeId type;
  cluster::ShareMode mode = cluster::ShareMode::kExclusive;
  double price = 0;
  int count = 0;
};

std::vector<Group> Groups(const ServiceView& view) {
  std::map<std::pair<uint32_t, double>, Group> groups;
  for (size_t d = 0; d < view.devices.size(); ++d) {
    const DeviceState& device = view.devices[d];
    if (!device.up) continue;
    const double price = view.PriceOf(d);
    Group& g = groups[{device.type.index(), price}];
    g.type = device.type;
    g.mode = DivisionMode(device.modes);
    g.price = price;
    ++g.count;
  }
  std::vector<Group> list;
  for (const auto& [key, group] : groups) list.push_back(group);
  return list;
}

// Adds x(service, group) columns and the rows that tie them to devices; returns them by service.
std::vector<std::vector<std::pair<int, double>>> Flows(Programme& programme,
                                                       const CapacityTable& table,
                                                       const std::vector<Group>& groups,
                                                       const std::vector<int>& devices_used) {
  std::vector<std::vector<std::pair<int, double>>> by_service(table.services());
  for (size_t g = 0; g < groups.size(); ++g) {
    std::vector<std::pair<int, double>> used;
    for (size_t s = 0; s < table.services(); ++s) {
      const double density = table.Of(s, groups[g].type, groups[g].mode).best_density();
      if (density <= 0) continue;
      const int x = programme.Column(kUnbounded, 0, false);
      by_service[s].emplace_back(x, 1.0);
      used.emplace_back(x, 1 / density);
    }
    if (devices_used.empty()) {
      programme.Row(used, 'L', groups[g].count);
    } else {
      used.emplace_back(devices_used[g], -1.0);
      programme.Row(used, 'L', 0);
    }
  }
  return by_service;
}

// The solver's tolerances are absolute: rates are given to it as parts of the greatest.
double GreatestRate(const CapacityTable& table) {
  double greatest = 0;
  for (size_t s = 0; s < table.services(); ++s)
    greatest = std::max(greatest, table.Demand(s).rate_rps);
  return greatest > 0 ? greatest : 1;
}

std::optional<double> SolveFactor(Programme& programme, double greatest) {
  const auto scaled = programme.Solve(true);
  return scaled ? std::optional(*scaled / greatest) : std::nullopt;
}

}  // namespace

std::optional<double> BoundOnFactor(const CapacityTable& table) {
  Programme programme;
  const int factor = programme.Column(kUnbounded, 1, false);
  const double greatest = GreatestRate(table);
  auto flows = Flows(programme, table, Groups(table.view()), {});
  for (size_t s = 0; s < table.services(); ++s) {
    if (flows[s].empty()) continue;  // never served: refused by name elsewhere
    flows[s].emplace_back(factor, -table.Demand(s).rate_rps / greatest);
    programme.Row(flows[s], 'E', 0);
  }
  return SolveFactor(programme, greatest);
}

std::optional<double> BoundOnCost(const CapacityTable& table) {
  Programme programme;
  const auto groups = Groups(table.view());
  std::vector<int> devices;
  for (const Group& g : groups) devices.push_back(programme.Column(g.count, g.price, true));
  const auto flows = Flows(programme, table, groups, devices);
  for (size_t s = 0; s < table.services(); ++s)
    if (!flows[s].empty()) programme.Row(flows[s], 'E', table.Demand(s).rate_rps);
  return programme.Solve(false);
}

std::optional<double> ExactFactor(const CapacityTable& table) {
  const auto& view = table.view();
  if (table.services() > 4 || view.devices.size() > 3) return std::nullopt;
  Programme programme;
  const int factor = programme.Column(kUnbounded, 1, false);
  const double greatest = GreatestRate(table);
  std::vector<std::vector<std::pair<int, double>>> flows(table.services());
  for (const DeviceState& device : view.devices) {
    std::vector<std::pair<int, double>> shares;
    for (size_t s = 0; s < table.services(); ++s) {
      const auto& steps = table.Of(s, device.type, DivisionMode(device.modes)).steps;
      const int rate = programme.Column(kUnbounded, 0, false);
      std::vector<std::pair<int, double>> enough{{rate, 1.0}}, once;
      for (size_t j = 0; j < steps.size(); ++j) {
        if (j % kExactStep != 0 && j + 1 != steps.size()) continue;
        const int chosen = programme.Column(1, 0, true);
        enough.emplace_back(chosen, -steps[j].rate_rps);
        once.emplace_back(chosen, 1.0);
        shares.emplace_back(chosen, ToFraction(steps[j].grant.share));
      }
      programme.Row(enough, 'L', 0);
      programme.Row(once, 'L', 1);
      flows[s].emplace_back(rate, 1.0);
    }
    programme.Row(shares, 'L', 1);
  }
  for (size_t s = 0; s < table.services(); ++s) {
    flows[s].emplace_back(factor, -table.Demand(s).rate_rps / greatest);
    programme.Row(flows[s], 'E', 0);
  }
  return SolveFactor(programme, greatest);
}

}  // namespace hase::placement
