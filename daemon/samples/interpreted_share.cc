#include "daemon/samples/interpreted_share.h"

namespace profd {

void share_code(SessionSnapshot& snapshot, InterpretedCodes* codes, const Sampler& source) {
  if (codes == nullptr) return;
  snapshot.interpreters = source.interpreters();
  for (ProcessSnapshot& process : snapshot.processes) {
    process.interpreted = codes->share(process.key);
  }
}

}  // namespace profd
