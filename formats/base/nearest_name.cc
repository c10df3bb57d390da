#include "formats/base/nearest_name.h"

#include <algorithm>
#include <numeric>

namespace profd {
namespace {

// The Levenshtein distance, one row of its matrix at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j + 1] + 1, row[j] + 1});
    }
  }
  return row.back();
}

constexpr std::size_t kLongestName = 64;  // of a name that is worth a suggestion

}  // namespace

std::vector<std::string_view> nearest_names(std::string_view name,
                                            std::span<const std::string_view> known,
                                            std::size_t most) {
  struct Candidate {
    std::size_t distance;
    std::string_view name;
  };
  std::vector<Candidate> candidates;
  if (name.empty() || name.size() > kLongestName) return {};
  const std::size_t allowed = std::max<std::size_t>(1, name.size() / 3);
  for (const std::string_view candidate : known) {
    const std::size_t distance = candidate.starts_with(name) ? 0 : edit_distance(name, candidate);
    if (distance <= allowed) candidates.push_back({distance, candidate});
  }
  std::ranges::stable_sort(candidates, {}, &Candidate::distance);
  std::vector<std::string_view> names;
  for (const Candidate& candidate : candidates) {
    if (names.size() == most) break;
    names.push_back(candidate.name);
  }
  return names;
}

std::string enumeration(std::span<const std::string_view> names, std::string_view conjunction) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? conjunction : ", ";
    text += names[i];
  }
  return text;
}

std::string did_you_mean(std::span<const std::string_view> names) {
  return names.empty() ? std::string() : "did you mean " + enumeration(names, " or ") + "?";
}

}  // namespace profd
