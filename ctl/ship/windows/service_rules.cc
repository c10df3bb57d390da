#include "ctl/ship/windows/service_rules.h"

#include <algorithm>
#include <utility>

namespace profd {
namespace {

constexpr std::string_view kServiceEnd = ".service";

std::string_view label_of(const ProcessLabelTexts& process, std::string_view key) {
  const auto found = process.find(key);
  return found == process.end() ? std::string_view() : std::string_view(found->second);
}

// Replaces each "{key}". Other braces stay.
std::string expand(std::string_view text, const ProcessLabelTexts& process) {
  std::string expanded;
  while (!text.empty()) {
    const std::size_t open = text.find('{');
    expanded += text.substr(0, open);
    if (open == std::string_view::npos) break;
    text.remove_prefix(open);
    const std::size_t close = text.find('}');
    const std::string_view key =
        close == std::string_view::npos ? std::string_view() : text.substr(1, close - 1);
    const bool is_key = std::ranges::find(service_keys(), key) != service_keys().end();
    if (is_key) {
      expanded += label_of(process, key);
      text.remove_prefix(close + 1);
    } else {
      expanded += '{';
      text.remove_prefix(1);
    }
  }
  return expanded;
}

// Kubernetes makes random names of these: no vowels, and nothing that looks like another.
constexpr std::string_view kRandomLetters = "bcdfghjklmnpqrstvwxz2456789";
constexpr std::string_view kDecimalDigits = "0123456789";

// Without "-" and `least` to `most` of these characters at its end; as it is where that is not
// there.
std::string_view without_part(std::string_view name, std::string_view characters, std::size_t least,
                              std::size_t most) {
  const std::size_t dash = name.rfind('-');
  if (dash == std::string_view::npos || dash == 0) return name;
  const std::string_view part = name.substr(dash + 1);
  const bool is_such = part.size() >= least && part.size() <= most &&
                       part.find_first_not_of(characters) == std::string_view::npos;
  return is_such ? name.substr(0, dash) : name;
}

std::string usual_service(const ProcessLabelTexts& process, bool is_kernel) {
  if (is_kernel) return "kernel";
  const std::string_view unit = label_of(process, "unit");
  if (unit.ends_with(kServiceEnd) && unit.size() > kServiceEnd.size()) {
    return std::string(unit.substr(0, unit.size() - kServiceEnd.size()));
  }
  if (const std::string_view pod = label_of(process, "pod"); !pod.empty()) {
    return std::string(workload_of(pod));
  }
  for (const char* key : {"container", "comm"}) {
    if (const std::string_view label = label_of(process, key); !label.empty()) {
      return std::string(label);
    }
  }
  return "unknown";
}

bool matches_rule(const ServiceRule& rule, const ProcessLabelTexts& process) {
  return std::ranges::all_of(rule.patterns, [&process](const auto& pattern) {
    return matches_pattern(pattern.second, label_of(process, pattern.first));
  });
}

}  // namespace

const std::vector<std::string_view>& service_keys() {
  static const std::vector<std::string_view> keys{"cgroup", "comm",    "container", "namespace",
                                                  "pod",    "runtime", "unit",      "user"};
  return keys;
}

std::string unknown_placeholder(std::string_view text) {
  constexpr std::string_view kKeyCharacters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
  for (std::size_t open = text.find('{'); open != std::string_view::npos;
       open = text.find('{', open + 1)) {
    const std::size_t close = text.find_first_not_of(kKeyCharacters, open + 1);
    if (close == std::string_view::npos) break;
    const std::string_view key = text.substr(open + 1, close - open - 1);
    const bool is_placeholder = text[close] == '}' && !key.empty();
    const bool is_known = std::ranges::find(service_keys(), key) != service_keys().end();
    if (is_placeholder && !is_known) return std::string(key);
  }
  return {};
}

bool needs_key(const std::vector<ServiceRule>& rules, std::string_view key) {
  const std::string expanded = "{" + std::string(key) + "}";
  return std::ranges::any_of(rules, [key, &expanded](const ServiceRule& rule) {
    return rule.patterns.contains(std::string(key)) ||
           rule.service.find(expanded) != std::string::npos ||
           std::ranges::any_of(rule.labels, [&expanded](const auto& label) {
             return label.second.find(expanded) != std::string::npos;
           });
  });
}

bool matches_pattern(std::string_view pattern, std::string_view text) {
  std::size_t place = 0;
  std::size_t read = 0;
  std::size_t star = std::string_view::npos;  // the last one in the pattern
  std::size_t after_star = 0;                 // what of the text it does not stand for
  while (read < text.size()) {
    if (place < pattern.size() && pattern[place] == '*') {
      star = place++;
      after_star = read;
    } else if (place < pattern.size() && pattern[place] == text[read]) {
      ++place;
      ++read;
    } else if (star != std::string_view::npos) {
      place = star + 1;
      read = ++after_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', place) == std::string_view::npos;
}

std::string_view workload_of(std::string_view pod) {
  constexpr std::size_t kRandomLength = 5;
  const std::string_view owner = without_part(pod, kRandomLetters, kRandomLength, kRandomLength);
  if (owner.size() == pod.size()) return without_part(pod, kDecimalDigits, 1, 4);
  const std::string_view deployment = without_part(owner, kRandomLetters, 8, 10);
  if (deployment.size() < owner.size()) return deployment;
  // The minutes since 1970 of a CronJob's run.
  return without_part(owner, kDecimalDigits, 8, std::string_view::npos);
}

std::optional<Service> service_of(const ProcessLabelTexts& process, bool is_kernel,
                                  const std::vector<ServiceRule>& rules) {
  const auto rule = std::ranges::find_if(
      rules, [&process](const ServiceRule& one) { return matches_rule(one, process); });
  Service service;
  for (const auto& [key, text] : process) {
    // The commands and cgroups of a service are many, and each would be a series.
    if (key != "comm" && key != "cgroup") service.labels.emplace(key, text);
  }
  if (rule != rules.end()) {
    if (rule->drop) return std::nullopt;
    service.name = expand(rule->service, process);
    for (const auto& [key, text] : rule->labels) service.labels[key] = expand(text, process);
  }
  if (service.name.empty()) service.name = usual_service(process, is_kernel);
  return service;
}

}  // namespace profd
