// The image of the kernel for all windows of one boot: the functions that any window hit.
//
// Its .text has a fixed range, that of the kernel's text and modules, so that functions can be
// added without a change of the profiles' mapping lines. The kernel's own text does not change
// during a boot. Addresses in the range of modules are looked up again, in symbols that are ten
// minutes old at most. If another function lies there by then, a new image begins. On the window
// worker.

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

  // The image for a window that hit these code addresses; KernelImage::hidden() if the kernel hides
  // its symbols. Its line path is in the store.
  KernelImage image_for(const std::set<std::uint64_t>& addresses);

  // Writes the image that image_for() returned last if it has new functions. Returns its size.
  Result<std::uint64_t> write();

  // The name of the image in the store.
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
  int number_ = 1;                               // of the image, from 1
  std::map<std::uint64_t, Function> functions_;  // by start
  std::set<std::uint64_t> nameless_;             // addresses of the kernel's text without a symbol
  std::optional<KernelSymbols> symbols_;
  Clock::time_point read_at_;
  std::uint64_t bytes_ = 0;
};

}  // namespace profd
