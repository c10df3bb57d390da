// Which service the samples of a process belong to, by a table that the user can change.
//
// The first rule whose patterns all match decides; where none does, the service is the unit without
// ".service", else the container, else the command. Kernel threads are "kernel".

#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace profd {

// The labels of a process by key ("comm", "unit", "container", ...), without those that do not
// apply.
using ProcessLabelTexts = std::map<std::string, std::string, std::less<>>;

// The keys by which a rule matches, and which a series has as labels.
[[nodiscard]] const std::vector<std::string_view>& service_keys();

struct ServiceRule {
  // By key. "*" stands for any characters. A label that does not apply is "".
  std::map<std::string, std::string> patterns;
  std::string service;  // may have "{unit}" for the label of that key; "": the usual service
  std::map<std::string, std::string> labels;  // further labels of the series, likewise
  bool drop = false;                          // the samples are not sent

  friend bool operator==(const ServiceRule&, const ServiceRule&) = default;
};

struct Service {
  std::string name;
  std::map<std::string, std::string> labels;  // without its name
};

// None: the samples are dropped. The labels are those of the process, without its command, and
// those of the rule.
[[nodiscard]] std::optional<Service> service_of(const ProcessLabelTexts& process, bool is_kernel,
                                                const std::vector<ServiceRule>& rules);

[[nodiscard]] bool matches_pattern(std::string_view pattern, std::string_view text);

}  // namespace profd
