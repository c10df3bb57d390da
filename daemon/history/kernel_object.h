// The kernel's image for all windows of one boot: the functions that any of them hit.
//
// Its .text has a fixed place (the kernel's text and its modules'), so that functions can be added
// without a change of the profiles' mapping lines. The kernel's own text stays as it is for a whole
// boot; what lies in the modules' range is looked up again, in symbols that are ten minutes old at
// most, and where something else lies there by then, a second image begins. On the window worker.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "daemon/history/object_store.h"
#include "daemon/profiles/kernel_image.h"
#include "formats/base/result.h"
#include "formats/proc/kallsyms.h"

namespace profd {

class KernelObject {
 public:
  // `store` must outlive *this.
  explicit KernelObject(ObjectStore& store) : store_(store) {}

  // The image for a window that hit these code addresses; `[kernel]` where the kernel shows no
  // symbols. Its line path is in the store.
  KernelImage image_for(const std::set<std::uint64_t>& addresses);

  // Writes what image_for() gave last, where it has something new. Returns its bytes.
  Result<std::uint64_t> write();

  // In the store.
  [[nodiscard]] std::string name() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Function {
    std::uint64_t end = 0;
    std::string name;

    friend bool operator==(const Function&, const Function&) = default;
  };

  void load_image_of_boot();
  void add(std::uint64_t start, Function function);
  [[nodiscard]] bool is_known(std::uint64_t address) const;
  void look_up(const std::set<std::uint64_t>& addresses);
  bool refresh_symbols();
  [[nodiscard]] AbsoluteImage image() const;

  ObjectStore& store_;
  bool loaded_ = false;
  bool hidden_ = false;
  bool changed_ = false;
  int generation_ = 1;
  std::map<std::uint64_t, Function> functions_;  // by start
  std::set<std::uint64_t> nameless_;             // kernel text without a symbol
  std::optional<KernelSymbols> symbols_;
  Clock::time_point read_at_;
  std::uint64_t bytes_ = 0;
};

}  // namespace profd
