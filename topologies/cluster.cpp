#include "topologies/cluster.h"

#include "sim/base/error.h"

namespace meshweave {

std::string_view name_of(CollectiveAlgorithm algorithm) {
  switch (algorithm) {
    case CollectiveAlgorithm::ring: return "ring";
    case CollectiveAlgorithm::tree: return "tree";
    case CollectiveAlgorithm::nvls: return "nvls";
    case CollectiveAlgorithm::direct: return "direct";
    case CollectiveAlgorithm::p2p: return "p2p";
  }
  bug("unknown collective algorithm");
}

std::string_view name_of(CollectiveProtocol protocol) {
  switch (protocol) {
    case CollectiveProtocol::ll: return "LL";
    case CollectiveProtocol::ll128: return "LL128";
    case CollectiveProtocol::simple: return "Simple";
  }
  bug("unknown collective protocol");
}

}  // namespace meshweave
