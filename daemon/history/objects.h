// The files behind one window's user frames: all of them by an image in the store, so that a window
// reads right whatever becomes of the files. What is no ELF file or out of reach gets a bracketed
// name, as in sessions. On the window worker.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/history/object_store.h"
#include "daemon/profiles/profiled_object.h"
#include "daemon/samples/symbol_budgets.h"
#include "formats/base/result.h"

namespace profd {

class WindowObjects final : public ProfiledObjects {
 public:
  // In a window. Further ones get a bracketed name, as what is out of reach.
  static constexpr std::size_t kMaxImagesOfOwner = 256;

  // `store` must outlive *this.
  explicit WindowObjects(ObjectStore& store) : store_(store) {}

  ProfiledObject& find_or_add(const Mapping& mapping, bool main_executable) override;

  // Brings the images up to date; `bytes` gets what each takes.
  Result<void> write(SymbolBudgets& symbols, std::map<std::string, std::uint64_t>& bytes);

 private:
  ProfiledObject& named(const std::string& line_path);
  [[nodiscard]] bool has_room_for(const ObjectStore::Original& original, std::uint32_t owner);
  ProfiledObject& image_of(const ObjectStore::Original& original,
                           const ProfiledObject::Image& image);

  ObjectStore& store_;
  std::map<std::string, ProfiledObject> by_line_path_;
  std::map<std::string, ProfiledObject*> images_;  // by name in the store
  std::map<std::uint32_t, std::size_t> images_of_owner_;
  std::vector<std::shared_ptr<const MappedFile>> files_;  // keeps the images' fds open
};

}  // namespace profd
