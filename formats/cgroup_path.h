// Who a process belongs to, read from its cgroup path: systemd unit and container.
//
// Units: the innermost "*.service", "*.scope" (no container's), "*.slice"-less component as systemd
// escapes it. Containers: docker-ID.scope, libpod-ID.scope, cri-containerd-ID.scope, crio-ID.scope,
// /docker/ID, /kubepods/.../ID, where ID is 64 hexadecimal digits; shown in full.

#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace profd {

struct CgroupOwner {
  std::optional<std::string> unit;
  std::optional<std::string> container;

  friend bool operator==(const CgroupOwner&, const CgroupOwner&) = default;
};

[[nodiscard]] CgroupOwner owner_of_cgroup(std::string_view path);

}  // namespace profd
