// The parts of the daemon, in the order in which they need each other: each uses those above it.

#pragma once

#include <memory>

#include <boost/asio/io_context.hpp>

#include "daemon/control/server.h"
#include "daemon/history/continuous.h"
#include "daemon/history/history.h"
#include "daemon/samples/aggregator.h"
#include "daemon/samples/drain_loop.h"
#include "daemon/samples/jit_naming.h"
#include "daemon/service/running_config.h"
#include "daemon/service/service_manager.h"
#include "daemon/sessions/caller_limits.h"
#include "daemon/sessions/sample_recorder.h"
#include "daemon/sessions/sample_source.h"
#include "daemon/sessions/sessions.h"
#include "daemon/storage/result_store.h"
#include "daemon/storage/store_worker.h"
#include "daemon/xray/apps.h"
#include "daemon/xray/directory.h"
#include "daemon/xray/recorder.h"

namespace profd {

// Members are destroyed in reverse order. None is null once the daemon is started, except `traces`.
struct DaemonParts {
  ConfigInForce& config;
  ServiceManager& manager;
  boost::asio::io_context io{1};
  SessionLimits limits{};  // a reload changes them

  std::unique_ptr<JitNaming> naming{};
  Aggregator aggregator{};
  std::unique_ptr<SampleSource> source{};
  std::unique_ptr<DrainLoop> drain_loop{};

  std::unique_ptr<ResultStore> results{};
  std::unique_ptr<StoreWorker> worker{};
  std::unique_ptr<Continuous> continuous{};
  std::unique_ptr<WindowHistory> history{};

  std::unique_ptr<SampleRecorder> sample_recorder{};
  std::unique_ptr<XrayApps> xray_apps{};
  std::unique_ptr<XrayRecorder> xray_recorder{};
  std::unique_ptr<Sessions> sessions{};
  std::unique_ptr<XrayDirectory> traces{};  // null: no directory is configured
};

}  // namespace profd
