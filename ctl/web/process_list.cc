#include "ctl/web/process_list.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "formats/base/json_text.h"
#include "formats/base/utf8_text.h"

namespace profd {
namespace {

using boost::json::array;
using boost::json::object;

constexpr std::size_t kMostRows = 500;  // of each list

struct ListedProcess {
  std::uint32_t pid = 0;
  std::uint32_t comm = 0;
  std::uint32_t runtime = 0;
  SampleValue value{};
};

using ProcessKey = std::pair<std::uint32_t, std::uint32_t>;  // pid, command

struct ListedUnit {
  std::uint32_t name = 0;
  SampleValue value{};
  std::map<ProcessKey, ListedProcess> processes{};
};

struct ListedRow {
  std::string text;
  std::string target{};
  const char* kind = "";
  std::string group{};
};

// The values of a map, the largest first.
template <class T, class Key>
std::vector<const T*> sorted_by_value(const std::map<Key, T>& map) {
  std::vector<const T*> sorted;
  sorted.reserve(map.size());
  for (const auto& [key, one] : map) sorted.push_back(&one);
  std::ranges::stable_sort(
      sorted, {}, [](const T* one) { return std::tuple(-one->value.cpu_ns, -one->value.samples); });
  return sorted;
}

class ProcessList {
 public:
  explicit ProcessList(const Samples& samples) : samples_(samples) {
    std::vector<SampleValue> sums(samples.labels().size());
    for (const Samples::Row& row : samples.rows()) sums[row.labels].add(row.value);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (sums[i] != SampleValue()) add(samples.labels()[i], sums[i]);
    }
  }

  std::string json() {
    for (const ListedUnit* unit : first_of(sorted_by_value(units_))) {
      const std::string name = text(unit->name);
      add_row({.text = name.empty() ? "(no unit)" : name,
               .target = name.empty() ? "" : "unit:" + name,
               .kind = "unit",
               .group = name},
              unit->value);
      for (const ListedProcess* process : first_of(sorted_by_value(unit->processes))) {
        add_process(*process, name.empty());
      }
    }
    for (const ListedUnit* container : first_of(sorted_by_value(containers_))) {
      const std::string name = text(container->name);
      add_row({.text = "container " + name, .target = "container:" + name, .kind = "container"},
              container->value);
    }
    return json_text(object{{"rows", std::move(rows_)}, {"left_out", left_out_}});
  }

 private:
  void add(const SampleLabels& labels, const SampleValue& value) {
    ListedUnit& unit = units_[labels.unit];
    unit.name = labels.unit;
    unit.value.add(value);
    ListedProcess& process = unit.processes[{labels.pid, labels.comm}];
    process.pid = labels.pid;
    process.comm = labels.comm;
    if (labels.runtime != 0) process.runtime = labels.runtime;
    process.value.add(value);
    if (labels.container == 0) return;
    ListedUnit& container = containers_[labels.container];
    container.name = labels.container;
    container.value.add(value);
  }

  template <class T>
  std::vector<const T*> first_of(std::vector<const T*> all) {
    if (all.size() <= kMostRows) return all;
    left_out_ += all.size() - kMostRows;
    all.resize(kMostRows);
    return all;
  }

  [[nodiscard]] std::string text(std::uint32_t index) const {
    return printable_utf8(samples_.text(index), kMaxPrintableBytes);
  }

  void add_process(const ListedProcess& process, bool is_outside) {
    const std::string comm = text(process.comm);
    ListedRow row{.text = comm.empty() ? "(unknown process)" : comm, .kind = "process"};
    if (process.pid != 0) {
      row.text += " " + std::to_string(process.pid);
      row.target = "pid:" + std::to_string(process.pid);
    } else if (!comm.empty()) {
      row.target = "comm:" + comm;
    }
    if (process.runtime != 0) row.text += " (" + text(process.runtime) + ")";
    if (is_outside) row.group = comm;
    add_row(row, process.value);
  }

  void add_row(const ListedRow& row, const SampleValue& value) {
    rows_.push_back(object{{"text", row.text},
                           {"target", row.target},
                           {"kind", row.kind},
                           {"group", row.group},
                           {"samples", value.samples},
                           {"cpu_ns", value.cpu_ns}});
  }

  const Samples& samples_;
  std::map<std::uint32_t, ListedUnit> units_;  // by name
  std::map<std::uint32_t, ListedUnit> containers_;
  array rows_;
  std::size_t left_out_ = 0;
};

}  // namespace

std::string process_list_json(const Samples& samples) { return ProcessList(samples).json(); }

}  // namespace profd
