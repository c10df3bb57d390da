// The instrumented apps that are connected to app.sock (collectors/xray/app/wire.h), by pid.
//
// A process of its own, the door (app_door.h), has the connections and reads nothing from them: the
// follower of a session does that. So the daemon never receives or closes a descriptor that an app
// sent, and an app that sends too much fills its own socket's queue. On the io thread.

#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include "collectors/host/uid_owners.h"
#include "collectors/host/user_refusals.h"
#include "daemon/service/unix_listener.h"
#include "daemon/xray/app_door.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

class XrayApps {
 public:
  static constexpr std::size_t kMaxApps = 1024;
  // Of all users other than root, and of one of them.
  static constexpr std::size_t kMaxAppsOfUsers = kMaxApps / 2;
  static constexpr std::size_t kMaxAppsOfUid = kMaxAppsOfUsers / 8;

  struct Counts {
    std::size_t all = 0;
    std::size_t of_users = 0;  // of all users other than root
    std::size_t of_user = 0;   // of the one who wants another one
  };
  // Whether the limits have room for one more app of this user (UidOwners).
  [[nodiscard]] static bool has_room(uid_t user, const Counts& connected);

  // Listens at `path`. `io` and `refusals` must outlive the object. `owners` say which uids are one
  // user. Without `refusals`, refused apps are not counted by user.
  static Result<std::unique_ptr<XrayApps>> open(boost::asio::io_context& io,
                                                const std::filesystem::path& path,
                                                UidOwners owners = UidOwners(),
                                                UserRefusals* refusals = nullptr);
  XrayApps(const XrayApps&) = delete;
  XrayApps& operator=(const XrayApps&) = delete;
  ~XrayApps();

  // kNotFound: the process has no connection.
  [[nodiscard]] Result<void> check_connected(pid_t pid) const;

  // Sends the connection of a process over `follower`, one end of a seqpacket socket pair. The
  // other end is the follower's alone by now. If the process has none, only closes the end.
  void pass_connection(pid_t pid, UniqueFd follower);

  // Closes the connection of an app, which then unpatches its functions and may connect again.
  void disconnect(pid_t pid);

  [[nodiscard]] std::size_t size() const { return apps_.size(); }
  [[nodiscard]] std::uint64_t refused() const { return refused_; }  // over a limit, or unidentified

  [[nodiscard]] const AppDoor::Counts& door() const { return door_.counts(); }

  // Closes all connections and accepts no more, so that the io context can run dry.
  void stop();

 private:
  struct App;

  XrayApps(boost::asio::io_context& io, UnixListener listener, std::filesystem::path path,
           UidOwners owners, UserRefusals* refusals);

  void handle(const door::AppPacket& packet);
  void admit(const door::AppPacket& packet);
  [[nodiscard]] Counts counts_for(uid_t user) const;
  boost::asio::awaitable<void> watch_process(std::shared_ptr<App> app);
  // Without a word to the door.
  void forget(std::uint64_t app);
  void forget_all();

  boost::asio::io_context& io_;
  UnixListener listener_;
  std::filesystem::path path_;
  UidOwners owners_;
  UserRefusals* refusals_;
  std::map<std::uint64_t, std::shared_ptr<App>> apps_;  // by the door's number
  std::map<pid_t, std::uint64_t> numbers_;              // of the apps
  std::uint64_t refused_ = 0;
  AppDoor door_;
};

}  // namespace profd
