import assert from 'node:assert/strict';
import { test } from 'node:test';
import { senderPages } from './sender-page.ts';
import { expressionOf, senders } from './senders.ts';

test('every sender has a page with its statements and how to try it, linked from the index', () => {
  const pages = senderPages();
  assert.equal(pages.size, senders.size + 3);
  const index = pages.get('docs/senders/README.md') ?? '';
  for (const sender of senders.values()) {
    const page = pages.get(`docs/senders/${sender.id}.md`) ?? '';
    assert.match(index, new RegExp(`\\(${sender.id}\\.md\\) \\| \`${sender.id}\` `));
    const second = sender.answerSecret === null ? '' : ` ANSWER SECRET ${sender.id}_answer`;
    assert(page.includes(`VALIDATE SECRET ${sender.id}_secret USING ${sender.id}${second};`));
    const expression = expressionOf(sender, `${sender.id}_secret`).replaceAll('\n', '\n  ');
    assert(page.includes(`${expression}\n  ANSWER`));
    assert.equal(page.includes('## The handshake'), sender.handshake !== null);
    assert.equal(page.includes(`headgate send ${sender.id} --handshake --url `), sender.questions.length > 0);
    assert(page.includes(`headgate send ${sender.id} --url `));
    assert(sender.steps.length > 0 && sender.steps.length <= 4);
    assert.doesNotMatch(page, /undefined|\[object|\n\n\n/);
  }
});
