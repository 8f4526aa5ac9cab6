#include "execd/files/body_walk.h"

#include "runtime/base/clock.h"

namespace atl::execd {
namespace {

struct Walk {
  explicit Walk(JsonDocument parsed) : document(std::move(parsed)), at(document.root().first()) {}
  JsonDocument document;
  JsonValue at;
  EachMember check, each;  // `check` is empty once all members have passed it
  std::function<void(const Status&)> done;

  bool Step() {
    const int64_t end = MonotonicMicros() + kSliceUs;
    while (at.present()) {
      const Status status = check ? check(at) : each(at);
      if (!status) {
        done(status);
        return false;
      }
      at = at.next();
      if (MonotonicMicros() >= end) return true;
    }
    if (!check) {
      done({});
      return false;
    }
    check = nullptr;
    at = document.root().first();
    return Step();
  }
};

}  // namespace

void ForEachInBody(EventLoop* loop, const std::shared_ptr<Exchange>& exchange, JsonType root,
                   EachMember check, EachMember each, std::function<void(const Status&)> done) {
  exchange->ReadBody(kMaxJsonBody, [loop, x = exchange.get(), root, check = std::move(check),
                                    each = std::move(each),
                                    done = std::move(done)](std::string body) {
    auto document = JsonDocument::Parse(std::move(body));
    if (document && !document->root().is(root)) {
      document =
          Fail(Code::kInvalidArgument, root == JsonType::kArray ? "body: must be a JSON array"
                                                                : "body: must be a JSON object");
    }
    if (!document) {
      x->RespondError(400, "INVALID_REQUEST_BODY", document.error().message());
      return;
    }
    auto walk = std::make_shared<Walk>(std::move(*document));
    // Set again after the document has moved, because values point to it.
    walk->at = walk->document.root().first();
    walk->check = check;
    walk->each = each;
    walk->done = [done, hold = x->shared_from_this()](const Status& status) { done(status); };
    // Most bodies have few members and are done before this returns.
    if (walk->Step()) loop->Slice([walk] { return walk->Step(); });
  });
}

}  // namespace atl::execd
