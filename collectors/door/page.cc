#include "collectors/door/page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "collectors/host/clock.h"

namespace profd::door {

void DoorPage::set_busy() { busy_since_ns = now_ns(CLOCK_MONOTONIC); }

DoorPage* map_page(int file) {
  void* const page = ::mmap(nullptr, sizeof(DoorPage), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return page == MAP_FAILED ? nullptr : static_cast<DoorPage*>(page);
}

void WatchedPage::Unmap::operator()(const DoorPage* page) const {
  ::munmap(const_cast<DoorPage*>(page), sizeof *page);
}

Result<WatchedPage> WatchedPage::make() {
  UniqueFd file(::memfd_create("profd-door", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid() || ::ftruncate(file.get(), sizeof(DoorPage)) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return fail_errno("could not make the shared memory of a door");
  }
  void* const memory = ::mmap(nullptr, sizeof(DoorPage), PROT_READ, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return fail_errno("could not map the shared memory of a door");
  return WatchedPage(std::move(file), Page(static_cast<const DoorPage*>(memory)));
}

bool WatchedPage::stands_still(std::chrono::milliseconds limit) const {
  const std::int64_t since = page_->busy_since_ns;
  const std::chrono::nanoseconds busy(now_ns(CLOCK_MONOTONIC) - since);
  return since != 0 && busy > limit;
}

}  // namespace profd::door
