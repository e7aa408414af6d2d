import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { barPlot, linePlot, ticks } from './svg.ts';

/** Every element is closed, in order, as an XML parser requires. */
function balanced(svg: string): boolean {
  const open: string[] = [];
  for (const [, close, name = '', , self] of svg.matchAll(
    /<(\/?)([a-z]+)((?:\s[a-zA-Z0-9:-]+="[^"<]*")*)\s*(\/?)>/g,
  )) {
    if (close === '/') {
      if (open.pop() !== name) return false;
    } else if (self !== '/') open.push(name);
  }
  return open.length === 0;
}

suite('plots of the benchmarks', () => {
  test('ticks begin at 0, are even, and reach what is shown', () => {
    assert.deepEqual(ticks(10, 5), [0, 2, 4, 6, 8, 10]);
    assert.deepEqual(ticks(0.3, 5), [0, 0.1, 0.2, 0.3]);
    assert.deepEqual(ticks(0, 5), [0, 1]);
    assert.deepEqual(ticks(Number.NaN, 5), [0, 1]);
    fc.assert(
      fc.property(fc.double({ min: 1e-6, max: 1e12, noNaN: true }), (most) => {
        const list = ticks(most, 5);
        assert.equal(list[0], 0);
        assert.ok((list.at(-1) ?? 0) >= most * (1 - 1e-8));
        assert.ok(list.length >= 3 && list.length <= 7, `${list.length} ticks of ${most}`);
      }),
    );
  });

  test('lines go where their points are', () => {
    const svg = linePlot({
      title: 'req/s & <more>',
      x: 'connections',
      y: 'req/s',
      xScale: 'log',
      lines: [{ name: 'Headgate', points: [[1, 0], [16, 50], [256, 100]] }],
      mark: { y: 100, name: 'aim' },
    }); // prettier-ignore
    assert.ok(balanced(svg));
    assert.ok(svg.includes('req/s &amp; &lt;more&gt;'));
    assert.ok(svg.includes('prefers-color-scheme: dark'));
    // On a logarithmic scale 16 is half way from 1 to 256.
    assert.match(svg, /points="78,316 409,190 740,64"/);
  });

  test('any points give a whole drawing without NaN', () => {
    const point = fc.tuple(fc.double({ min: 1 }), fc.double());
    fc.assert(
      fc.property(fc.array(point, { maxLength: 30 }), fc.string(), fc.constantFrom('linear', 'log'), (points, name, xScale) => {
        const svg = linePlot({ title: 't', x: 'x', y: 'y', xScale, lines: [{ name, points: points.filter(([x, y]) => x < 1e9 && y >= 0 && y < 1e9) }] });
        assert.ok(balanced(svg));
        assert.ok(!/="[^"]*(NaN|Infinity)/.test(svg));
      }),
    ); // prettier-ignore
  });

  test('bars are as long as their values', () => {
    const svg = barPlot({
      title: 'compared',
      x: 'req/s',
      bars: [
        { name: 'Headgate', value: 100, range: [90, 100] },
        { name: 'other', value: 50, group: 1 },
      ],
    });
    assert.ok(balanced(svg));
    const widths = [...svg.matchAll(/width="([\d.]+)" height="20"/g)].map(([, value]) => Number(value));
    assert.equal(widths.length, 2);
    assert.ok(Math.abs((widths[0] ?? 0) / (widths[1] ?? 1) - 2) < 0.01);
  });
});
