// The instrumented apps that are connected to app.sock (collectors/xray/app/wire.h), by pid.
//
// An app connects and sends nothing; the kernel says which process it is. Nothing is read from the
// connection here: the follower of a session does that. So an idle app costs a descriptor, and one
// that sends too much fills its own socket's queue. On the io thread.

#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "daemon/service/unix_listener.h"
#include "daemon/xray/background_closer.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

class XrayApps {
 public:
  static constexpr std::size_t kMaxApps = 1024;
  static constexpr std::size_t kMaxAppsOfUid = 64;  // of one uid other than 0

  // Listens at `path`. `io` must outlive the object.
  static Result<std::unique_ptr<XrayApps>> open(boost::asio::io_context& io,
                                                const std::filesystem::path& path);
  XrayApps(const XrayApps&) = delete;
  XrayApps& operator=(const XrayApps&) = delete;
  ~XrayApps();

  // The connection of a process, valid until control returns to the io loop. kNotFound: it has
  // none.
  [[nodiscard]] Result<int> connection_of(pid_t pid) const;

  // Closes the connection of an app, which then unpatches its functions and may connect again.
  void disconnect(pid_t pid);

  [[nodiscard]] std::size_t size() const { return apps_.size(); }
  [[nodiscard]] std::uint64_t refused() const { return refused_; }  // over a limit, or unidentified

  // Closes all connections and accepts no more, so that the io context can run dry.
  void stop();

 private:
  struct App;

  XrayApps(boost::asio::io_context& io, UnixListener listener, std::filesystem::path path);

  boost::asio::awaitable<void> accept();
  void admit(UniqueFd connection);
  boost::asio::awaitable<void> watch_process(std::shared_ptr<App> app);
  boost::asio::awaitable<void> watch_connection(std::shared_ptr<App> app);
  void remove(const App& app);

  boost::asio::io_context& io_;
  UnixListener listener_;
  boost::asio::posix::stream_descriptor socket_;
  std::filesystem::path path_;
  std::map<pid_t, std::shared_ptr<App>> apps_;
  std::uint64_t refused_ = 0;
  BackgroundCloser closer_;
};

}  // namespace profd
