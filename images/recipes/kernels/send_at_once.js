// Before tslab, by node --require: what it prints arrives whole.
//
// tslab hands message after message to ZeroMQ's package and waits for none. That package sends each at once,
// but every 512th only when the loop turns, and until then refuses the next: whoever printed much, or often,
// missed lines. Without a time to wait it sends all at once; and no message is too many while the reader reads.
const { Publisher } = require('/usr/local/lib/node_modules/tslab/node_modules/zeromq')

const { bind } = Publisher.prototype
// Not by assignment: the package's own is read-only.
Object.defineProperty(Publisher.prototype, 'bind', {
  value: function (...address) {
    this.sendTimeout = 0
    this.sendHighWaterMark = 0
    return bind.apply(this, address)
  }
})
