// A reporter for Node's test runner: a report of jest's shape, which names each test by its file, suites and title.
'use strict'

const path = require('path')

const MAX_PRINTED = 4000
const { stringify } = JSON
const top = process.cwd()

function messageOf(data, printed) {
  const error = data.details && data.details.error
  const cause = (error && error.cause) || error
  const said = String((cause && cause.message) || cause)
  return data.name === data.file ? `${printed}${said}` : `${said}\nat ${path.relative(top, data.file || '')}:${data.line}:${data.column}`
}

module.exports = async function* scaffoldReporter(events) {
  const suites = new Map()
  const printed = new Map()
  const parents = []
  let total = 0
  let failed = 0
  for await (const { type, data } of events) {
    const file = (data && data.file) || ''
    if (type === 'test:stdout' || type === 'test:stderr') {
      printed.set(file, `${printed.get(file) || ''}${data.message}`.slice(-MAX_PRINTED))
    } else if (type === 'test:start') {
      parents.splice(data.nesting, parents.length, data.name)
    } else if (type === 'test:pass' || type === 'test:fail') {
      // A test that is to do, or skipped, counts for nothing.
      const later = [data.skip, data.todo].some((each) => each !== undefined && each !== false)
      const status = later ? 'pending' : type === 'test:pass' ? 'passed' : 'failed'
      const isFile = data.nesting === 0 && path.resolve(top, data.name) === file
      const suite = suites.get(file) || { name: file, status: 'passed', assertionResults: [] }
      suites.set(file, suite)
      total += 1
      if (status === 'failed') {
        failed += 1
        suite.status = 'failed'
      }
      suite.assertionResults.push({
        title: isFile ? '' : data.name,
        ancestorTitles: isFile ? [] : parents.slice(0, data.nesting),
        status,
        failureMessages: status === 'failed' ? [messageOf(data, printed.get(file) || '')] : []
      })
    }
  }
  yield stringify({ numTotalTests: total, numFailedTests: failed, testResults: [...suites.values()] })
}
