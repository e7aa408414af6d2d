/**
 * The Kubernetes objects of a Headgate: a complete spec → the objects, as the operator applies them. The Helm chart
 * renders the same objects; test/deploy compares both over a matrix, so a change to only one of them fails. Takes only
 * values, refuses nothing, touches nothing.
 */
import { networkManifests } from './manifests-network.ts';
import { isStateful, object } from './manifest.ts';
import type { Deployment, Manifest } from './manifest.ts';
import { podTemplate } from './manifests-pod.ts';
import type { CompleteSpec, ResourceJson } from './resource.ts';

export function manifestsOf(deployment: Deployment): readonly Manifest[] {
  const { spec } = deployment;
  const made = [
    ...(spec.serviceAccount.name === ''
      ? [
          object(deployment, 'v1', 'ServiceAccount', '', {
            annotations: spec.serviceAccount.annotations,
            automountServiceAccountToken: false,
          }),
        ]
      : []),
    ...networkManifests(deployment),
    ...(spec.databaseUrlSecret === null ? embedded(deployment) : external(deployment)),
  ];
  // Drops undefined fields, as JSON does.
  return JSON.parse(JSON.stringify(made)) as Manifest[];
}

/** One process on one volume. A StatefulSet, because it never runs a new pod alongside the old one. */
function embedded(deployment: Deployment): Manifest[] {
  const { spec, name, selector, keep } = deployment;
  const set = object(deployment, 'apps/v1', 'StatefulSet', '', {
    spec: {
      replicas: spec.replicas,
      serviceName: `${name}-admin`,
      updateStrategy: { type: 'RollingUpdate' },
      selector: { matchLabels: selector },
      template: podTemplate(deployment),
    },
  });
  if (spec.storage.existingClaim !== '') return [set];
  const { accessModes, storageClassName, size, deleteWithResource } = spec.storage;
  // A separate object, not a template in the StatefulSet, so that its size can be raised.
  const claim = object(deployment, 'v1', 'PersistentVolumeClaim', '-data', {
    annotations: deleteWithResource ? {} : keep,
    spec: {
      accessModes,
      storageClassName: storageClassName === '' ? undefined : storageClassName,
      resources: { requests: { storage: size } },
    },
  });
  return [claim, set];
}

/** Any number of pods with an external database. */
function external(deployment: Deployment): Manifest[] {
  const { spec, name, selector } = deployment;
  const { autoscaling } = spec;
  // With an autoscaler, the autoscaler sets the number.
  const replicas = autoscaling === null ? spec.replicas : undefined;
  const made = [
    isStateful(spec)
      ? spooling(deployment, replicas)
      : object(deployment, 'apps/v1', 'Deployment', '', {
          spec: {
            replicas,
            // A rolling update never has fewer ready pods than at its start.
            strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } },
            selector: { matchLabels: selector },
            template: podTemplate(deployment),
          },
        }),
  ];
  if (autoscaling !== null) made.push(autoscaler(deployment, autoscaling));
  // With one pod, a budget would only prevent nodes from being drained.
  if ((autoscaling?.minReplicas ?? spec.replicas) > 1) {
    made.push(
      object(deployment, 'policy/v1', 'PodDisruptionBudget', '', {
        spec: { maxUnavailable: 1, selector: { matchLabels: selector } },
      }),
    );
  }
  return made;

  function autoscaler(of: Deployment, bounds: NonNullable<CompleteSpec['autoscaling']>): Manifest {
    const cpu: ResourceJson = {
      name: 'cpu',
      target: { type: 'Utilization', averageUtilization: bounds.targetCPUUtilizationPercentage },
    };
    return object(of, 'autoscaling/v2', 'HorizontalPodAutoscaler', '', {
      spec: {
        scaleTargetRef: {
          apiVersion: 'apps/v1',
          kind: isStateful(spec) ? 'StatefulSet' : 'Deployment',
          name,
        },
        minReplicas: bounds.minReplicas,
        maxReplicas: bounds.maxReplicas,
        metrics: [{ type: 'Resource', resource: cpu }],
      },
    });
  }
}

/** Each pod finds what it has spooled on its previous volume; no pod waits for another. */
function spooling(deployment: Deployment, replicas: number | undefined): Manifest {
  const { spec, name, selector } = deployment;
  const { size, storageClassName } = spec.spool;
  return object(deployment, 'apps/v1', 'StatefulSet', '', {
    spec: {
      replicas,
      serviceName: `${name}-admin`,
      podManagementPolicy: 'Parallel',
      updateStrategy: { type: 'RollingUpdate' },
      selector: { matchLabels: selector },
      template: podTemplate(deployment),
      volumeClaimTemplates: [
        {
          metadata: { name: 'spool' },
          spec: {
            accessModes: ['ReadWriteOnce'],
            storageClassName: storageClassName === '' ? undefined : storageClassName,
            resources: { requests: { storage: size } },
          },
        },
      ],
    },
  });
}
