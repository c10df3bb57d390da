#include "daemon/samples/interpreted_share.h"

#include <memory>
#include <utility>

namespace profd {

void share_code(SessionSnapshot& snapshot, InterpretedCodes* codes, const Sampler& source) {
  if (codes == nullptr) return;
  snapshot.interpreters = source.interpreters();
  InterpreterFiles files = source.refused_interpreters();
  const auto refused =
      files.empty() ? nullptr : std::make_shared<const InterpreterFiles>(std::move(files));
  for (ProcessSnapshot& process : snapshot.processes) {
    process.interpreted = codes->share(process.key);
    process.refused_interpreters = refused;
  }
}

}  // namespace profd
