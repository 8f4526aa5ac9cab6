// Loaded before tslab by node --require, so that its output arrives completely.
//
// tslab sends message after message to ZeroMQ's package without waiting. That package sends each at once,
// but every 512th only when the loop turns, and refuses messages until then. Programs that printed much or
// often lost lines. With a send timeout of 0 it sends all at once, and without a high-water mark no message
// is refused while the reader reads.
const { Publisher } = require('/usr/local/lib/node_modules/tslab/node_modules/zeromq')

const { bind } = Publisher.prototype
// defineProperty, because the package's own property is read-only.
Object.defineProperty(Publisher.prototype, 'bind', {
  value: function (...address) {
    this.sendTimeout = 0
    this.sendHighWaterMark = 0
    return bind.apply(this, address)
  }
})
