// The files behind one window's user frames. All of them are named by an image in the store, so
// that the window stays readable when the files change. Mappings without a readable ELF file get a
// bracketed name, as in sessions. On the window worker.

#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "daemon/history/object_store.h"
#include "daemon/names/symbol_budgets.h"
#include "daemon/profiles/profiled_object.h"
#include "formats/base/result.h"

namespace profd {

class WindowObjects final : public ProfiledObjects {
 public:
  // Limit for each window. The files beyond it get a bracketed name.
  static constexpr std::size_t kMaxImagesOfOwner = 256;

  // `store` must outlive *this.
  explicit WindowObjects(ObjectStore& store) : store_(store) {}

  ProfiledObject& find_or_add(const ProcessMapping& mapping, bool main_executable) override;

  // Updates the images, and stores their sizes in `bytes`.
  Result<void> write(SymbolBudgets& symbols, std::map<std::string, std::uint64_t>& bytes);

 private:
  [[nodiscard]] bool has_room_for(const std::string& line_path, std::uint32_t owner);

  ObjectStore& store_;
  std::map<std::uint32_t, std::size_t> images_of_owner_;
};

}  // namespace profd
