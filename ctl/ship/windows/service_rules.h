// Which service the samples of a process belong to, by a table that the user can change.
//
// The first rule whose patterns all match decides; where none does, the service is the unit without
// ".service", else the workload of the pod, else the container, else the command. Kernel threads
// are "kernel".

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

// The keys by which a rule matches, and which a series has as labels, but for "comm" and "cgroup".
[[nodiscard]] const std::vector<std::string_view>& service_keys();

// The key of the first "{key}" in a service name or label that is none of these; "": each is one.
// Other braces are text.
[[nodiscard]] std::string unknown_placeholder(std::string_view text);

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

// Whether a rule asks for that key.
[[nodiscard]] bool needs_key(const std::vector<ServiceRule>& rules, std::string_view key);

// None: the samples are dropped. The labels are those of the process, without its command and
// cgroup, and those of the rule.
[[nodiscard]] std::optional<Service> service_of(const ProcessLabelTexts& process, bool is_kernel,
                                                const std::vector<ServiceRule>& rules);

[[nodiscard]] bool matches_pattern(std::string_view pattern, std::string_view text);

// What made a pod, by the form of its name: "web" of a Deployment's "web-7d4b9c6f5d-x2x9z", of a
// DaemonSet's "web-x2x9z", of a CronJob's "web-28401120-x2x9z" and of a StatefulSet's "web-0";
// another name as it is.
[[nodiscard]] std::string_view workload_of(std::string_view pod);

}  // namespace profd
