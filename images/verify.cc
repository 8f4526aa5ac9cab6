#include "images/verify.h"

#include <utility>

#include "images/export.h"
#include "images/report.h"

namespace atl::images {
namespace {

Status Judge(const Layer& layer, const Result<std::string>& text) {
  if (!text) return Fail(DecodeUnpackError(text.error()));
  ATOLL_ASSIGN(const UnpackReport report, ParseUnpackReport(*text));
  return CompareContent(layer, report.content);
}

}  // namespace

Verify::Verify(std::weak_ptr<bool> owner, UnpackRunner& runner, std::vector<Layer> layers,
               UniqueFd null, std::function<void(std::vector<ImageStore::VerifiedLayer>)> done)
    : owner_(std::move(owner)),
      runner_(runner),
      layers_(std::move(layers)),
      null_(std::move(null)),
      done_(std::move(done)) {}

void Verify::Next() {
  if (verified_.size() == layers_.size()) return done_(std::move(verified_));
  const Layer& layer = layers_[verified_.size()];
  runner_.PackLayer(layer.id, null_.get(),
                    [this, self = shared_from_this(), &layer](const Result<std::string>& report) {
                      if (owner_.expired()) return;
                      verified_.push_back({layer, Judge(layer, report)});
                      Next();
                    });
}

}  // namespace atl::images
