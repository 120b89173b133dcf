// A reporter for mocha, any version of it: writes a report of jest's shape next to itself when the run ends.
'use strict'

const fs = require('fs')
const path = require('path')

const REPORT = path.join(__dirname, 'report.json')
const { writeFileSync } = fs
const { stringify } = JSON

function titles(runnable) {
  if (runnable.titlePath) return runnable.titlePath()
  const names = []
  for (let each = runnable; each && each.title; each = each.parent) names.unshift(each.title)
  return names
}

function fileOf(runnable) {
  for (let each = runnable; each; each = each.parent) {
    if (each.file) return each.file
  }
  return ''
}

module.exports = function ScaffoldReporter(runner) {
  const suites = new Map()
  let total = 0
  let failed = 0

  function add(runnable, status, error) {
    const file = fileOf(runnable)
    const names = titles(runnable)
    const suite = suites.get(file) || { name: file, status: 'passed', assertionResults: [] }
    const message = error ? String((error && error.stack) || (error && error.message) || error) : ''
    total += 1
    if (status === 'failed') {
      failed += 1
      suite.status = 'failed'
      console.log(`\nFAILED ${names.join(' > ')}\n${message}`)
    }
    suite.assertionResults.push({
      title: names[names.length - 1],
      ancestorTitles: names.slice(0, -1),
      status,
      failureMessages: message ? [message] : []
    })
    suites.set(file, suite)
  }

  const errors = new Map()
  runner.on('fail', (runnable, error) => {
    if (runnable.type === 'hook') add(runnable, 'failed', error)
    else errors.set(runnable, error)
  })
  runner.on('test end', (test) => {
    if (test.state === 'failed') add(test, 'failed', errors.get(test) || 'It failed.')
    else add(test, test.state === 'passed' ? 'passed' : 'pending')
  })
  runner.on('end', () => {
    console.log(`${total - failed} of ${total} tests did not fail`)
    writeFileSync(REPORT, stringify({ numTotalTests: total, numFailedTests: failed, testResults: [...suites.values()] }))
  })
}
