#include "base/nearest.h"

#include <algorithm>
#include <utility>

namespace hase {

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string NearestNames(std::string_view name, const std::vector<std::string>& known) {
  std::vector<std::pair<size_t, std::string_view>> near;
  for (const auto& one : known) near.emplace_back(EditDistance(name, one), one);
  std::ranges::sort(near);
  std::string list;
  for (size_t i = 0; i < std::min<size_t>(3, near.size()); ++i) {
    if (i > 0) list += ", ";
    list += near[i].second;
  }
  return list;
}

}  // namespace hase
